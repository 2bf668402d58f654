"""POST /v1/audio/transcriptions: what the model is asked, what comes back, and what is refused."""

import asyncio
import dataclasses
import json
from typing import Any

import httpx
import openai
import pytest

from server.prompt import RenderedPrompt
from server.settings import Settings
from server.transcription import INSTRUCTION, instruction
from tests.server.chat_client import client
from tests.server.fakes import Bench, FakeMedia, FakePrompts, say
from tests.server.live import serving
from tests.server.test_stream_live import connect, eventually, read_all, read_until

URL = "/v1/audio/transcriptions"
SOUND = b"RIFF....WAVEfmt "


class SoundPrompts(FakePrompts):
    """Its media are sounds."""

    def render(self, *args: Any, **kwargs: Any) -> RenderedPrompt:
        prompt = super().render(*args, **kwargs)
        return prompt._replace(num_image_tokens=0, num_audio_tokens=prompt.num_image_tokens)


class HeardMedia(FakeMedia):
    """Keeps the sources that it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Any] = []

    async def resolve(self, part: Any) -> Any:
        self.parts.append(part)
        return await super().resolve(part)


def hearing(script: Any = "Hello there", **settings: Any) -> Bench:
    """A bench whose model takes sounds."""
    bench = Bench(script, **settings)
    bench.prompts, bench.media = SoundPrompts(), HeardMedia()
    runtime = bench.state.serving()
    prompt = instruction(bench.state.settings, {})
    facts = runtime.facts._replace(media_kinds=frozenset({"audio"}), transcription_prompt=prompt)
    bench.state.runtime = dataclasses.replace(runtime, facts=facts, prompts=bench.prompts, media=bench.media)
    return bench


def post(
    bench: Bench, fields: dict[str, Any] | None = None, file: bytes | None = SOUND, **more: Any
) -> httpx.Response:
    async def run() -> httpx.Response:
        async with client(bench) as http:
            files = {"file": ("a.wav", file)} if file is not None else {"other": ("", b"")}
            data = {"model": "bytes", **(fields or {})}
            return await http.post(URL, data=data, files=files, **more)

    return asyncio.run(run())


def refused(bench: Bench, response: httpx.Response, status: int = 400) -> dict[str, Any]:
    assert response.status_code == status, response.text
    bench.assert_idle()
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


def asked_text(bench: Bench) -> str:
    (message,) = bench.prompts.seen[0]["messages"]
    sound, text = message["content"]
    assert (message["role"], sound) == ("user", {"type": "audio"})
    return text["text"]


def test_the_transcript_comes_with_its_usage() -> None:
    bench = hearing(lambda _: say("Hello", cached=3))
    response = post(bench)
    assert response.status_code == 200, response.text
    num_text = len(INSTRUCTION) + 1
    assert response.json() == {
        "text": "Hello",
        "usage": {
            "type": "tokens", "input_tokens": num_text + 4, "output_tokens": 6, "total_tokens": num_text + 10,
            "input_token_details": {"text_tokens": num_text, "audio_tokens": 4, "cached_tokens": 3},
        },
    }  # fmt: skip
    assert asked_text(bench) == INSTRUCTION
    assert bench.engine.requests[0].sampling.temperature == 0
    bench.assert_idle()


def test_the_very_bytes_are_heard() -> None:
    bench = hearing()
    sound = bytes(range(256)) * 5000
    post(bench, file=sound)
    (part,) = bench.media.parts
    assert part.kind == "audio"
    assert part.source == sound


def test_language_and_prompt_follow_the_operators_instruction() -> None:
    bench = hearing(transcription_prompt="Write it down.")
    response = post(bench, {"language": "de", "prompt": "Names: Öl.", "temperature": "0.5"})
    assert response.status_code == 200, response.text
    assert asked_text(bench) == "Write it down. The language is de.\nNames: Öl."
    assert bench.engine.requests[0].sampling.temperature == 0.5


@pytest.mark.parametrize(
    ("operators", "checkpoints", "asked"),
    [
        ("Write.", "Listen.", "Write."),
        (None, "Listen.", "Listen."),
        (None, None, INSTRUCTION),
        (None, ["Listen."], INSTRUCTION),
    ],
)
def test_the_operator_or_the_checkpoint_says_how_to_ask(
    operators: str | None, checkpoints: object, asked: str
) -> None:
    config = {"transcription_prompt": checkpoints}
    assert instruction(Settings(transcription_prompt=operators), config) == asked


def test_empty_fields_are_absent() -> None:
    bench = hearing()
    assert post(bench, {"language": "", "prompt": "", "temperature": ""}).status_code == 200
    assert asked_text(bench) == INSTRUCTION


def test_plain_text() -> None:
    response = post(hearing("Grüße"), {"response_format": "text"})
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.text == "Grüße"


@pytest.mark.parametrize("name", ["include", "include[]"])
def test_logprobs(name: str) -> None:
    body = post(hearing("Hi"), {name: "logprobs"} if "[" in name else {"include[]": ["logprobs"]}).json()
    assert body["logprobs"] == [
        {"token": "H", "logprob": -0.5, "bytes": [72]},
        {"token": "i", "logprob": -0.5, "bytes": [105]},
    ]


def test_a_stream_ends_with_the_whole_transcript() -> None:
    bench = hearing("Hello")
    response = post(bench, {"stream": "true"})
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in response.text.split("\n\n") if line.startswith("data: ")]
    *deltas, done = events
    assert {event["type"] for event in deltas} == {"transcript.text.delta"}
    assert "".join(event["delta"] for event in deltas) == "Hello" == done["text"]
    assert done["type"] == "transcript.text.done"
    assert done["usage"] == post(hearing("Hello")).json()["usage"]
    bench.assert_idle()


BAD: list[tuple[dict[str, Any], str]] = [
    ({"response_format": "srt"}, "response_format"), ({"response_format": "vtt"}, "response_format"),
    ({"response_format": "verbose_json"}, "response_format"),
    ({"response_format": "diarized_json"}, "response_format"),
    ({"timestamp_granularities[]": ["word"]}, "timestamp_granularities"),
    ({"chunking_strategy": "auto"}, "chunking_strategy"),
    ({"chunking_strategy[type]": "server_vad"}, "chunking_strategy"),
    ({"known_speaker_names[]": ["a"]}, "known_speaker_names"),
    ({"known_speaker_references[]": ["a"]}, "known_speaker_references"), ({"keywords[]": ["a"]}, "keywords"),
    ({"languages[]": ["en"]}, "languages"), ({"temperature": "1.5"}, "temperature"),
    ({"temperature": "nan"}, "temperature"),
    ({"temperature": "x"}, "temperature"), ({"stream": "perhaps"}, "stream"),
    ({"language": "a b"}, "language"),
    ({"include[]": ["nonsense"]}, "include[0]"), ({"nonsense": "1"}, "nonsense"),
    ({"model": ["bytes", "bytes"]}, "model"),
    ({"stream": "true", "response_format": "text"}, "stream"),
    ({"include[]": ["logprobs"], "response_format": "text"}, "include"),
    ({"prompt": ["a", "b"]}, "prompt"), ({"cache_salt": "a b"}, "cache_salt"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "param"), BAD, ids=str)
def test_refusals_name_the_field(fields: dict[str, Any], param: str) -> None:
    bench = hearing()
    error = refused(bench, post(bench, fields))
    assert error["param"] == param
    assert error["code"]


def test_a_model_without_audio_says_so() -> None:
    error = refused(bench := Bench(), post(bench))
    assert "audio" in error["message"]


def test_other_refusals() -> None:
    bench = hearing()
    assert refused(bench, post(bench, {"model": "gpt-4"}), 404)["code"] == "model_not_found"
    assert refused(bench, post(bench, {"file": "/tmp/a.wav"}, file=None))["param"] == "file"
    assert refused(bench, post(bench, file=None))["param"] == "file"
    bench.media.resolve = bad_sound  # type: ignore[method-assign]
    error = refused(bench, post(bench))
    assert (error["param"], error["code"]) == ("file", "invalid_audio")


async def bad_sound(part: Any) -> Any:
    from models.processing.base import MediaError

    raise MediaError("The audio can't be read.", "invalid_audio")


def test_no_media_at_all_where_the_operator_allows_none() -> None:
    bench = hearing(max_media_items=0)
    assert refused(bench, post(bench))["code"] == "too_many_media"


def test_a_transcript_that_is_cut_off_is_an_error() -> None:
    bench = hearing(lambda _: say("Hel", "length"))
    error = refused(bench, post(bench))
    assert (error["param"], error["code"]) == ("file", "context_length_exceeded")


FORM = "multipart/form-data; boundary=b"
END = b"\r\n--b--\r\n"


def part(name: str, content: bytes = b"x", file_name: str = "") -> bytes:
    file = f'; filename="{file_name}"' if file_name else ""
    return f'--b\r\ncontent-disposition: form-data; name="{name}"{file}\r\n\r\n'.encode() + content


@pytest.mark.parametrize(
    ("content", "content_type", "status"),
    [
        (b"{}", "application/json", 415), (b"", "multipart/form-data; charset=utf-16; boundary=b", 415),
        (b"", "multipart/form-data", 400), (b"", FORM, 400), (b"nonsense", FORM, 400),
        (b"--b\r\n\r\nx\r\n--b--", FORM, 400),
        (part("model"), FORM, 400),
        (part("prompt", b"x" * 100_000) + END, FORM, 400),
        (b"\r\n".join(part(f"x{index}") for index in range(100)) + END, FORM, 400),
        (b"\r\n".join([part("file", file_name="a")] * 2) + END, FORM, 400),
        (b"\r\n".join([part("file", file_name="a"), part("file[]", file_name="b")]) + END, FORM, 400),
        (b"\r\n".join([part("model"), part("model[]")]) + END, FORM, 400),
        (b"\r\n".join([part("include[]"), part("include")]) + END, FORM, 400),
    ],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
def test_what_is_no_form_is_refused(content: bytes, content_type: str, status: int) -> None:
    async def run() -> httpx.Response:
        async with client(bench) as http:
            return await http.post(URL, content=content, headers={"content-type": content_type})

    bench = hearing()
    refused(bench, asyncio.run(run()), status)
    assert bench.engine.requests == []


@pytest.mark.parametrize("name", ["prompt", "language", "include[]"])
def test_text_that_is_not_utf8_is_refused_by_its_fields_name(name: str) -> None:
    content = (
        b"\r\n".join([part("model", b"bytes"), part("file", SOUND, "a"), part(name, b"\xe9t\xe9")]) + END
    )

    async def run() -> httpx.Response:
        async with client(bench) as http:
            return await http.post(URL, content=content, headers={"content-type": FORM})

    bench = hearing()
    error = refused(bench, asyncio.run(run()))
    assert error["param"] == name.removesuffix("[]")
    assert "UTF-8" in error["message"]


def test_a_large_upload_is_413_before_it_is_read() -> None:
    async def endless() -> Any:
        yield part("file", file_name="a")
        while True:
            yield b"x" * 65536

    async def run() -> httpx.Response:
        async with client(bench) as http:
            return await http.post(URL, content=endless(), headers={"content-type": FORM})

    bench = hearing(max_body_bytes=1_000_000)
    refused(bench, asyncio.run(run()), 413)


def test_keys_namespaces_and_draining() -> None:
    bench = hearing(api_key=("a:k1", "b:k2"))
    assert post(bench).status_code == 401
    for key, salt in (("k1", ""), ("k2", ""), ("k1", "s")):
        response = post(bench, {"cache_salt": salt}, headers={"authorization": f"Bearer {key}"})
        assert response.status_code == 200, response.text
    assert len({request.namespace for request in bench.engine.requests}) == 3
    bench.state.draining = True
    assert post(bench, headers={"authorization": "Bearer k1"}).status_code == 503


def test_a_full_queue_is_refused() -> None:
    bench = hearing(max_queue=0, max_num_seqs=1)
    bench.state.admission.num_inside = 99
    assert post(bench).status_code == 503


def test_the_official_client_transcribes() -> None:
    bench = hearing("Hello")
    with serving(bench) as port:
        official = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x", max_retries=0)
        call = official.audio.transcriptions.create
        whole = call(
            model="bytes", file=("a.wav", SOUND), language="en", include=["logprobs"], temperature=0.2
        )
        assert whole.text == "Hello"
        assert whole.logprobs is not None
        assert len(whole.logprobs) == 5
        assert whole.usage is not None
        assert whole.usage.type == "tokens"
        assert call(model="bytes", file=("a.wav", SOUND), response_format="text") == "Hello"
        events = list(call(model="bytes", file=("a.wav", SOUND), stream=True))
        assert events[-1].type == "transcript.text.done"
        with pytest.raises(openai.BadRequestError, match="no times"):
            call(
                model="bytes", file=("a.wav", SOUND), response_format="json", timestamp_granularities=["word"]
            )


def upload(**fields: str) -> bytes:
    parts = [part(name, value.encode()) for name, value in fields.items()]
    data = b"\r\n".join([*parts, part("file", SOUND, "a.wav")]) + END
    head = f"POST {URL} HTTP/1.1\r\nhost: x\r\ncontent-type: {FORM}\r\ncontent-length: {len(data)}\r\n\r\n"
    return head.encode() + data


def test_a_client_that_leaves_cancels_its_transcription() -> None:
    bench = hearing(lambda _: [*say("Hello")[:3], 60.0])
    with serving(bench) as port:
        connection = connect(port, upload(model="bytes", stream="true"))
        assert b"delta" in read_until(connection, b"delta")
        connection.close()
        eventually(lambda: bench.engine.num_aborted == 1)
        eventually(lambda: bench.state.telemetry.num_open == 0)
    bench.assert_idle()


def test_a_stream_that_is_cut_off_has_no_clean_end() -> None:
    with serving(hearing(lambda _: say("Hel", "length"))) as port:
        connection = connect(port, upload(model="bytes", stream="true"))
        received = read_all(connection)
        connection.close()
    assert b"context_length_exceeded" in received
    assert b"transcript.text.done" not in received
    assert not received.endswith(b"0\r\n\r\n")
