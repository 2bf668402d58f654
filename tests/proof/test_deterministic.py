"""In bfloat16, on the back end that promises it: the same bits however an answer was reached."""

import pytest

from models.checkpoint import Checkpoint
from models.interface import ServedModel
from models.loader import load_model
from tests.proof.families import FAMILIES, TEXT, directory, forbidden, media
from tests.proof.prompts import Prompt, build, words
from tests.proof.reference import Piece
from tests.proof.rig import Answer, Rig

NAMES = ("qwen2_5_omni", "qwen3_vl")
"""Both kinds of media, and media that are read in several layers."""


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def model(name: str) -> ServedModel:
    checkpoint = Checkpoint.open(str(directory(name)))
    return load_model(checkpoint, dtype="bfloat16", device="cpu", load_format="auto")


def pieces(name: str) -> list[Piece]:
    every = [piece for kind in FAMILIES[name].kinds for piece in media(name, kind, 1, 2.0)]
    return [*words(1, 30, TEXT), *every, *words(2, 40, TEXT)]


def asked(
    name: str,
    model: ServedModel,
    temperature: float,
    these: list[Piece] | None = None,
    num_choices: int = 1,
) -> Prompt:
    return build(
        these or pieces(name),
        model.processing,
        num_choices=num_choices,
        max_tokens=12,
        temperature=temperature,
        seed=11,
        logit_bias=forbidden(name),
    )


def same(one: Answer, other: Answer) -> bool:
    return one.tokens == other.tokens and one.logprobs == other.logprobs


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_same_bits_on_every_way(name: str, model: ServedModel, temperature: float) -> None:
    rig = Rig(model, backend="native")
    (alone,) = rig.run([asked(name, model, temperature)])
    (warm,) = rig.run([asked(name, model, temperature)])
    assert warm.num_cached > 0
    assert same(alone, warm)
    for chunk in (7, 40):
        engine = Rig(model, backend="native", chunk=chunk, max_num_seqs=1)
        (cut,) = engine.run([asked(name, model, temperature)])
        assert same(alone, cut)
    others = [asked(name, model, 1.0, [*words(50 + i, 20 + 7 * i, TEXT)]) for i in range(7)]
    batched = Rig(model, backend="native").run([*others, asked(name, model, temperature)])[-1]
    assert same(alone, batched)


def test_sampling_differs_by_seed_and_choice(name: str, model: ServedModel) -> None:
    rig = Rig(model, backend="native")
    prompt = asked(name, model, 1.0, num_choices=3)
    rig.run([prompt])
    choices = [tuple(rig.answers[prompt.request.request_id, choice].tokens) for choice in range(3)]
    assert len(set(choices)) == 3
