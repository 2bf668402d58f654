"""Sequences as the scheduler would make them, for tests of what comes after it."""

import itertools

import numpy as np

from engine.messages import MediaItem, SamplingParams
from engine.request import EngineRequest, Sequence
from kvcache.sequence import TokenSequence
from kvcache.spans import MediaSpan

_numbers = itertools.count()


def make_sequence(
    prompt: list[int],
    sampling: SamplingParams | None = None,
    generated: tuple[int, ...] = (),
    choice: int = 0,
    spans: tuple[MediaSpan, ...] = (),
    media: dict[bytes, MediaItem] | None = None,
    indivisible: tuple[tuple[int, int], ...] = (),
    positions: np.ndarray | None = None,
    next_position: int | None = None,
) -> Sequence:
    number = next(_numbers)
    request = EngineRequest(
        request_id=f"r{number}",
        namespace=b"",
        prompt_ids=tuple(prompt),
        spans=spans,
        media=media or {},
        positions=np.arange(len(prompt), dtype=np.int64)[None] if positions is None else positions,
        next_position=len(prompt) if next_position is None else next_position,
        sampling=sampling or SamplingParams(max_tokens=100, temperature=0.0),
        num_choices=1,
        grammar=None,
        indivisible=indivisible,
        arrival=number,
    )
    return Sequence(number, request, choice, TokenSequence([*prompt, *generated], spans))
