import msgspec
import pytest

from engine.admission import Refused
from engine.messages import MAX_CHOICES, MediaItem, SamplingParams
from models.processing.base import MediaLayout
from tests.engine.house import House, generate, media_item

IMAGE = media_item("a", 5)


def admit(request, **limits):
    return House(**limits).engine._admission.admit(request, 1)


def changed(request, **changes):
    return msgspec.structs.replace(request, **changes)


def with_sampling(**changes):
    return changed(generate("r", [2, 3]), sampling=SamplingParams(**({"max_tokens": 4} | changes)))


GOOD = generate("r", [2, IMAGE, 3])

REFUSED = [
    (changed(GOOD, ids=b""), "messages"),
    (changed(GOOD, ids=b"abc"), "messages"),
    (generate("r", [2, 97]), "prompt"),
    (generate("r", [2, -1]), "prompt"),
    (changed(GOOD, num_choices=0), "n"),
    (changed(GOOD, num_choices=MAX_CHOICES + 1), "n"),
    (with_sampling(max_tokens=0), "max_tokens"),
    (with_sampling(logit_bias={97: 1.0}), "logit_bias"),
    (with_sampling(logit_bias={-1: 1.0}), "logit_bias"),
    (with_sampling(stop_token_ids=(97,)), "stop_token_ids"),
    (with_sampling(num_top_logprobs=98), "top_logprobs"),
    (changed(GOOD, spans=((1, 6, 1, 0),)), "messages"),
    (changed(GOOD, spans=((1, 8, 0, 0),)), "messages"),
    (changed(GOOD, spans=((3, 3, 0, 0),)), "messages"),
    (changed(GOOD, spans=((3, 5, 0, 0), (1, 2, 0, 0))), "messages"),
    (changed(GOOD, spans=((1, 6, 0, 1),)), "messages"),
    (changed(GOOD, spans=((1, 6, 0, -1),)), "messages"),
    (changed(GOOD, media=(IMAGE, media_item("a", 6))), "messages"),
    (changed(GOOD, media=(media_item("a", 5, "video"),)), "model"),
    (changed(GOOD, media=(MediaItem(b"a" * 32, "image", MediaLayout(0)),)), "messages"),
]


@pytest.mark.parametrize(("request_", "param"), REFUSED)
def test_refusals_name_the_field(request_, param) -> None:
    with pytest.raises(Refused) as refusal:
        admit(request_)
    assert (refusal.value.code, refusal.value.param) == ("invalid_request", param)


def test_a_good_request_keeps_what_was_asked() -> None:
    request = admit(GOOD)
    assert request.prompt_ids == (2, 1, 1, 1, 1, 1, 3)
    assert [(s.start, s.end, s.key, s.offset) for s in request.spans] == [(1, 6, IMAGE.key, 0)]
    assert request.positions.shape == (1, 7)
    assert request.next_position == 7
    assert request.indivisible == ()
    assert request.sampling.max_tokens == 4


def test_indivisible_spans_are_found() -> None:
    assert admit(generate("r", [2, media_item("s", 6, "audio"), 3])).indivisible == ((1, 7),)


@pytest.mark.parametrize(
    ("num_tokens", "limits", "expected"),
    [
        (10, {"max_model_len": 11}, 1),
        (10, {"max_model_len": 14}, 4),
        (10, {"num_blocks": 3}, 3),  # 12 places: the last of 3 new tokens needs none
        (10, {"num_blocks": 30}, 100),
        (12, {"num_blocks": 3}, 1),
    ],
)
def test_answers_are_capped_to_what_can_ever_fit(num_tokens, limits, expected) -> None:
    request = admit(generate("r", list(range(num_tokens)), max_tokens=100, min_tokens=50), **limits)
    assert request.sampling.max_tokens == expected
    assert request.sampling.min_tokens == min(50, expected)


@pytest.mark.parametrize("limits", [{"max_model_len": 10}, {"num_blocks": 2}])
def test_prompts_without_room_for_an_answer(limits) -> None:
    with pytest.raises(Refused, match="10 tokens") as refusal:
        admit(generate("r", list(range(10))), **limits)
    assert refusal.value.code == "context_length_exceeded"


def test_media_must_fit_the_empty_encoding_cache() -> None:
    admit(generate("r", [media_item("a", 12), 3]), encoder_bytes=12)
    with pytest.raises(Refused) as refusal:
        admit(generate("r", [media_item("a", 13), 3]), encoder_bytes=12)
    assert refusal.value.code == "media_too_large"


def test_a_layout_that_the_family_rejects(monkeypatch) -> None:
    house = House()

    def positions(*_):
        raise ValueError("grid")

    monkeypatch.setattr(house.engine._admission.processing, "positions", positions)
    with pytest.raises(Refused) as refusal:
        house.engine._admission.admit(GOOD, 1)
    assert refusal.value.code == "invalid_request"
