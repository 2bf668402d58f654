"""Pictures and sounds through the door of a real server: odd ones, equal ones, and those that only look
equal."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import openai
import pytest
from openai.types.chat import ChatCompletion
from PIL import Image

from tests.door.conftest import Door
from tests.door.test_openai_client import _settled, ask, audio, check_usage, image, text
from tests.media_factory import data_url, encode, gradient, noise, sound, tone


def picture(encoded: bytes, media_type: str = "image/png", **more: Any) -> dict:
    return {"type": "image_url", "image_url": {"url": data_url(encoded, media_type), **more}}


def wave(samples: np.ndarray, name: str = "wav", form: str = "WAV") -> dict:
    data = base64.b64encode(sound(samples, format=form)).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": name}}


def look(client: openai.OpenAI, *parts: dict, **options: Any) -> ChatCompletion:
    answer = ask(client, *parts, text("?"), logprobs=True, top_logprobs=3, **options)
    check_usage(answer)
    return answer


def said(answer: ChatCompletion) -> tuple[Any, Any]:
    """What must be equal where content is, and (with random weights) is not where it is not."""
    (choice,) = answer.choices
    return choice.message.content, choice.logprobs


def details(answer: ChatCompletion) -> dict[str, int]:
    assert answer.usage
    assert answer.usage.prompt_tokens_details
    return answer.usage.prompt_tokens_details.model_dump()


@pytest.mark.parametrize(
    "size", [(1, 1), (1, 7), (2, 2), (26, 28), (17, 134), (10000, 1), (1, 10000), (400, 800)], ids=str
)
def test_pictures_of_odd_sizes_are_answered_or_refused(client: openai.OpenAI, size: tuple[int, int]) -> None:
    part = picture(encode(Image.new("RGB", size, "white")))
    if max(size) > 200 * min(size):
        with pytest.raises(openai.BadRequestError) as refusal:
            look(client, part)
        assert refusal.value.param == "messages[0].content[0].image_url"
        assert refusal.value.code in ("image_too_small", "invalid_image", "image_too_large")
    else:
        assert details(look(client, part))["image_tokens"] >= 1


def test_labels_are_ignored(client: openai.OpenAI) -> None:
    encoded = encode(noise(60, 60, 200), "JPEG")
    answers = [
        look(client, picture(encoded, label))
        for label in ("image/jpeg", "image/png", "application/octet-stream", "")
    ]
    assert all(said(answer) == said(answers[0]) for answer in answers)
    assert all(details(answer)["cached_tokens"] for answer in answers[1:]), "the same content is found again"
    samples = tone(0.8, hertz=200)
    assert said(look(client, wave(samples, "wav"))) == said(look(client, wave(samples, "mp3")))
    assert details(look(client, wave(samples, "wav", "FLAC")))["audio_tokens"] > 0


def test_many_pictures_many_at_once_twice(client: openai.OpenAI) -> None:
    pictures = [image(300 + number, 84, 84) for number in range(10)]
    orders = [pictures[shift:] + pictures[:shift] for shift in range(10)]
    with ThreadPoolExecutor(10) as pool:
        together = list(pool.map(lambda parts: said(look(client, *parts)), orders))
        again = list(pool.map(lambda parts: said(look(client, *parts)), orders))
    alone = [said(look(client, *parts, extra_body={"cache_salt": "alone"})) for parts in orders[:3]]
    assert [content for content, _ in together[:3]] == [content for content, _ in alone]
    assert [content for content, _ in together] == [content for content, _ in again]
    assert len({json.dumps(logprobs.model_dump()) for _, logprobs in together}) == 10


def test_a_cut_sound_has_the_tokens_of_what_was_decoded(client: openai.OpenAI) -> None:
    whole = sound(tone(2.0))
    kept = (len(whole) // 2 - 44) // 2
    cut = {
        "type": "input_audio",
        "input_audio": {"data": base64.b64encode(whole[: 44 + 2 * kept]).decode(), "format": "wav"},
    }
    short = look(client, wave(tone(2.0)[:kept]))
    assert said(look(client, cut)) == said(short)
    assert details(short)["audio_tokens"] < details(look(client, wave(tone(2.0))))["audio_tokens"]


def test_sounds_around_thirty_seconds_side_by_side(client: openai.OpenAI) -> None:
    lengths = [29.9, 30.0, 30.1, 31.0, 60.0]
    with ThreadPoolExecutor(5) as pool:
        together = list(pool.map(lambda seconds: look(client, audio(seconds, 300)), lengths))
    counts = [details(answer)["audio_tokens"] for answer in together]
    assert counts == sorted(counts)
    assert counts[-1] == pytest.approx(2 * counts[1], abs=2), "nothing is cut off"
    for seconds, answer in zip(lengths, together, strict=True):
        alone = look(client, audio(seconds, 300), extra_body={"cache_salt": "alone"})
        assert alone.choices[0].message.content == answer.choices[0].message.content


def test_the_same_pixels_in_another_shape_are_another_picture(client: openai.OpenAI) -> None:
    pixels = np.random.default_rng(7).integers(0, 256, (30, 100, 3), np.uint8)
    grey = pixels[..., 0]
    palette = Image.frombytes("P", (100, 30), grey.tobytes())
    palette.putpalette([255 - value // 3 for value in range(768)])
    kinds = {
        "wide": Image.fromarray(pixels),
        "tall": Image.frombytes("RGB", (30, 100), pixels.tobytes()),
        "swapped colours": Image.fromarray(pixels[..., ::-1].copy()),
        "grey": Image.fromarray(grey),
        "palette": palette,
    }
    answers = {name: look(client, picture(encode(kind))) for name, kind in kinds.items()}
    assert len({str(said(answer)[1]) for answer in answers.values()}) == len(kinds)
    for name, kind in kinds.items():
        fresh = look(client, picture(encode(kind)), extra_body={"cache_salt": name.replace(" ", "_")})
        assert said(fresh)[0] == said(answers[name])[0]


def test_one_picture_in_several_formats(client: openai.OpenAI) -> None:
    shown = gradient(90, 70)
    answers = [
        look(client, picture(encode(shown, form, **options)))
        for form, options in (("PNG", {}), ("BMP", {}), ("WEBP", {"lossless": True}))
    ]
    assert all(said(answer) == said(answers[0]) for answer in answers)


def test_another_detail_is_another_picture(client: openai.OpenAI) -> None:
    encoded = encode(noise(700, 700, 210))
    high, low, again = (look(client, picture(encoded, detail=name)) for name in ("high", "low", "high"))
    assert details(low)["image_tokens"] < details(high)["image_tokens"]
    assert said(again)[0] == said(high)[0]
    assert said(low) != said(high)
    fresh = look(client, picture(encoded, detail="low"), extra_body={"cache_salt": "x"})
    assert said(fresh)[0] == said(low)[0]


def test_a_name_stands_for_its_picture(door: Door, client: openai.OpenAI) -> None:
    sent = {**image(220), "uuid": "cat"}
    first = look(client, sent)
    runs = _settled(door)["intarsia_engine_encoder_runs_total"]
    for empty in ({"type": "image_url", "uuid": "cat"}, {**picture(b""), "uuid": "cat"}):
        named = look(client, empty)
        assert said(named)[0] == said(first)[0]
        assert details(named)["image_tokens"] == details(first)["image_tokens"]
        assert details(named)["cached_tokens"]
    assert _settled(door)["intarsia_engine_encoder_runs_total"] == runs
    elsewhere = look(client, text("Somewhere else:"), {"type": "image_url", "uuid": "cat"})
    assert said(elsewhere)[0] == said(look(client, text("Somewhere else:"), image(220)))[0]
    with pytest.raises(openai.BadRequestError) as refusal:
        look(client, {**image(221), "uuid": "cat"})
    assert (refusal.value.code, refusal.value.param) == (
        "media_uuid_conflict",
        "messages[0].content[0].image_url",
    )
    with pytest.raises(openai.BadRequestError) as refusal:
        look(client, {"type": "image_url", "uuid": "cat"}, extra_body={"cache_salt": "another"})
    assert refusal.value.code == "media_uuid_not_found"
