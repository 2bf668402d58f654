"""In bfloat16, on the back end that promises it: the same bits however an answer was reached."""

import pytest

from models.checkpoint import Checkpoint
from models.interface import ServedModel
from models.loader import load_model
from tests.proof.families import TEXT, directory, forbidden, media
from tests.proof.prompts import Prompt, build, words
from tests.proof.reference import Piece
from tests.proof.rig import Answer, Rig

NAME = "qwen2_5_omni"


@pytest.fixture(scope="module")
def model() -> ServedModel:
    checkpoint = Checkpoint.open(str(directory(NAME)))
    return load_model(checkpoint, dtype="bfloat16", device="cpu", load_format="auto")


def pieces() -> list[Piece]:
    return [*words(1, 30, TEXT), *media(NAME, "image", 1, 2.0), *media(NAME, "audio", 1), *words(2, 40, TEXT)]


def asked(model: ServedModel, temperature: float, these: list[Piece] | None = None) -> Prompt:
    return build(
        these or pieces(),
        model.processing,
        max_tokens=12,
        temperature=temperature,
        seed=11,
        logit_bias=forbidden(NAME),
    )


def same(one: Answer, other: Answer) -> bool:
    return one.tokens == other.tokens and one.logprobs == other.logprobs


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_same_bits_on_every_way(model: ServedModel, temperature: float) -> None:
    rig = Rig(model, backend="native")
    (alone,) = rig.run([asked(model, temperature)])
    (warm,) = rig.run([asked(model, temperature)])
    assert warm.num_cached > 0
    assert same(alone, warm)
    for chunk in (7, 40):
        (cut,) = Rig(model, backend="native", chunk=chunk, max_num_seqs=1).run([asked(model, temperature)])
        assert same(alone, cut)
    others = [asked(model, 1.0, [*words(50 + i, 20 + 7 * i, TEXT)]) for i in range(7)]
    batched = Rig(model, backend="native").run([*others, asked(model, temperature)])[-1]
    assert same(alone, batched)


def test_sampling_differs_by_seed_and_choice(model: ServedModel) -> None:
    rig = Rig(model, backend="native")
    prompt = build(
        pieces(),
        model.processing,
        num_choices=3,
        max_tokens=12,
        temperature=1.0,
        seed=11,
        logit_bias=forbidden(NAME),
    )
    rig.run([prompt])
    choices = [tuple(rig.answers[prompt.request.request_id, choice].tokens) for choice in range(3)]
    assert len(set(choices)) == 3
