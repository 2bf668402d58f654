"""Values that are not finite fail the request that they arise in, and nothing that they were written to is
ever read for another."""

import pytest
import torch

from models.interface import ServedModel
from tests.proof.families import TEXT, model
from tests.proof.prompts import build, words
from tests.proof.rig import Answer, Rig

BACKENDS = ["reference", "sdpa", "native"]
POISON = 7
"""A token whose embedding is not finite, while `poisoned` is on."""


class Poisoned:
    """A model whose embedding of POISON is `value`, as a cosmic ray or an overflow would have it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, served: ServedModel, value: float) -> None:
        embed = served.decoder.embed  # type: ignore[attr-defined]
        self.on = True

        def poisoned(ids: torch.Tensor) -> torch.Tensor:
            hidden = embed(ids)
            if self.on:
                hidden[ids == POISON] = value
            return hidden

        monkeypatch.setattr(served.decoder, "embed", poisoned)  # type: ignore[attr-defined]


@pytest.fixture(params=[float("nan"), float("inf")], ids=["nan", "inf"])
def value(request: pytest.FixtureRequest) -> float:
    return request.param


def ask(engine: Rig, ids: list[int], **options: int) -> Answer | None:
    """None where the request failed."""
    prompt = build(ids, engine.model.processing, **options)
    engine.ask(prompt)
    while engine.step():
        pass
    engine.engine.check_integrity()
    if engine.failures.pop(prompt.request.request_id, None):
        return None
    return engine.answers[prompt.request.request_id, 0]


def clean(seed: int, count: int) -> list[int]:
    return [token for token in words(seed, 2 * count, TEXT) if token != POISON][:count]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("at", [3, 40, 99])
def test_what_a_prompt_chunk_poisoned_is_not_shared(
    monkeypatch: pytest.MonkeyPatch, value: float, backend: str, at: int
) -> None:
    """Early chunks give no logits that could show it, but their blocks are published."""
    served = model("qwen2", backend)
    ids = clean(1, 100)
    ids[at] = POISON
    expected = ask(Rig(served, backend=backend), ids)
    assert expected
    poison = Poisoned(monkeypatch, served, value)
    engine = Rig(served, backend=backend, chunk=32)
    assert ask(engine, ids) is None
    poison.on = False
    answer = ask(engine, ids)
    assert answer
    assert answer.tokens == expected.tokens
    assert answer.num_cached <= at


@pytest.mark.parametrize("backend", BACKENDS)
def test_blocks_that_were_poisoned_serve_others(
    monkeypatch: pytest.MonkeyPatch, value: float, backend: str
) -> None:
    """They are handed out first, and most of them are filled in part."""
    served = model("qwen2", backend)
    prompts = [clean(seed, 3 + 5 * seed) for seed in range(8)]
    expected = [ask(Rig(served, backend=backend), ids) for ids in prompts]
    Poisoned(monkeypatch, served, value)
    engine = Rig(served, backend=backend, num_blocks=16, chunk=64)
    for ids, good in zip(prompts, expected, strict=True):
        assert ask(engine, [*clean(99, 50), POISON, *clean(98, 60)]) is None
        answer = ask(engine, ids)
        assert answer
        assert good
        assert answer.tokens == good.tokens
        assert answer.logprobs == good.logprobs


@pytest.mark.parametrize("backend", BACKENDS)
def test_batch_mates_of_a_poisoned_request(
    monkeypatch: pytest.MonkeyPatch, value: float, backend: str
) -> None:
    served = model("qwen2", backend)
    prompts = [clean(seed, 20 + 7 * seed) for seed in range(5)]
    expected = [ask(Rig(served, backend=backend), ids, max_tokens=12) for ids in prompts]
    Poisoned(monkeypatch, served, value)
    engine = Rig(served, backend=backend, chunk=48)
    asked = [build(ids, served.processing, max_tokens=12) for ids in prompts]
    bad = [build([*prompts[0], *clean(seed, 30), POISON, 9], served.processing) for seed in (50, 51)]
    for prompt in (bad[0], *asked, bad[1]):
        engine.ask(prompt)
    while engine.step():
        pass
    assert set(engine.failures) == {prompt.request.request_id for prompt in bad}
    for prompt, good in zip(asked, expected, strict=True):
        assert good
        assert engine.answers[prompt.request.request_id, 0].tokens == good.tokens
