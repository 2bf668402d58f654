"""The C sampler draws what the portable one draws."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from engine.draw import draw
from engine.messages import SamplingParams
from engine.native.draw import NativeDraw
from engine.native.library import Library

LIMITS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.3},
    {"temperature": 20.0},
    {"top_p": 0.9},
    {"top_p": 0.999},
    {"top_p": 1e-9},
    {"top_k": 1},
    {"top_k": 40},
    {"top_k": 3000},
    {"min_p": 0.02},
    {"min_p": 1.0},
    {"top_k": 500, "top_p": 0.5, "temperature": 0.7},
    {"top_k": 50, "top_p": 0.95, "min_p": 0.05},
]


def rows(kind: str, vocab_size: int, count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(vocab_size)
    logits = torch.randn(count, vocab_size, generator=generator)
    match kind:
        case "peaked":
            return logits * 8
        case "flat":  # thousands of candidates, as random weights give
            return logits * 0.02
        case "coarse":  # many equal values, which stay or go together
            return (logits * 4).round() / 4
        case "equal":
            return torch.full_like(logits, -3.0)
        case "grammar":  # it allows a few neighbours only
            logits[:, 130:] = logits[:, :3] = -math.inf
            return logits
    logits[:, ::3] = -math.inf  # banned
    logits[:, 1::3] -= 40.0
    return logits


@pytest.mark.parametrize("machine", ["native", "x86-64-v3"])
@pytest.mark.parametrize("kind", ["peaked", "flat", "coarse", "equal", "banned", "grammar"])
@pytest.mark.parametrize("vocab_size", [7, 259, 5003, 40009])
def test_draws_are_those_of_the_portable_sampler(kind: str, vocab_size: int, machine: str) -> None:
    native = NativeDraw(Library(2, machine))
    for number, limits in enumerate(LIMITS):
        parameters = [SamplingParams(max_tokens=1, **limits)] * 24
        randoms = np.random.default_rng(number).random(24).tolist()
        logits = rows(kind, vocab_size, 24)
        expected = draw(logits.unbind(), parameters, randoms)
        drawn = native(logits.unbind(), parameters, randoms)
        assert drawn.tolist() == expected.tolist(), limits
        assert logits[range(24), drawn].isfinite().all()


@pytest.mark.parametrize("random", [0.0, math.nextafter(1.0, 0.0)])
def test_the_edges_of_chance_draw_tokens_that_may_be_drawn(random: float) -> None:
    logits = torch.full((1000,), -math.inf)
    logits[[17, 400, 801]] = torch.tensor([0.0, -90.0, 1.0])
    (token,) = NativeDraw(Library(1))([logits], [SamplingParams(max_tokens=1)], [random])
    assert token == (17 if random == 0 else 801)


def test_values_that_hardly_differ_are_told_apart_or_kept_together() -> None:
    """A range too narrow to be divided ends the search instead of repeating it for ever."""
    logits = torch.zeros(600)
    logits[::2] = -1e-45
    parameters = SamplingParams(max_tokens=1, top_k=10, top_p=0.5)
    (token,) = NativeDraw(Library(1))([logits], [parameters], [0.5])
    assert 0 <= token < 600


def test_rows_are_drawn_alike_alone_and_together() -> None:
    native = NativeDraw(Library(2))
    logits = rows("peaked", 5003, 9)
    parameters = [SamplingParams(max_tokens=1, top_p=0.1 * n + 0.1) for n in range(9)]
    randoms = np.random.default_rng(0).random(9).tolist()
    together = native(logits.unbind(), parameters, randoms)
    for row in range(9):
        assert native([logits[row]], [parameters[row]], [randoms[row]])[0] == together[row]
