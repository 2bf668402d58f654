"""What a back end is told about a step, in plain numbers. Knows neither requests nor tensors of a model."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from kvcache.sequence import BLOCK_SIZE
from models.interface import PagedAttention


class Chunk(NamedTuple):
    """One sequence's share of a step: [start, end) is computed, `block_table` has places for [0, end).

    bidirectional: token ranges whose rows see each other in both directions; sorted, disjoint, and none that
    begins before `end` reaches over it.
    """

    start: int
    end: int
    block_table: Sequence[int]
    bidirectional: Sequence[tuple[int, int]] = ()


class KeyRanges(NamedTuple):
    """Row i sees the keys [first[i], until[i]) of its sequence. int32 [rows] each."""

    first: np.ndarray
    until: np.ndarray


def key_ranges(chunk: Chunk, window: int | None) -> KeyRanges:
    """Causal, but to the end of its span for a row of a bidirectional one; at most `window` keys back, within
    a span too.

    ValueError if such a span is cut by the end of the chunk: its rows would miss keys.
    """
    ranges = _causal([chunk], window)
    for start, end in _spans_within(chunk):
        if end > chunk.end:
            raise ValueError(f"bidirectional span {start}..{end} is cut at {chunk.end}")
        ranges.until[max(start - chunk.start, 0) : end - chunk.start] = end
    return ranges


def step_ranges(chunks: Sequence[Chunk], window: int | None) -> KeyRanges:
    """`key_ranges` of all chunks, one behind the other: causal ones at once, since a step has many."""
    ranges = _causal(chunks, window)
    row = 0
    for chunk in chunks:
        rows = slice(row, row := row + chunk.end - chunk.start)
        if _spans_within(chunk):
            ranges.first[rows], ranges.until[rows] = key_ranges(chunk, window)
    return ranges


def _causal(chunks: Sequence[Chunk], window: int | None) -> KeyRanges:
    until = np.concatenate([np.arange(c.start + 1, c.end + 1, dtype=np.int32) for c in chunks])
    return KeyRanges(np.zeros_like(until) if window is None else np.maximum(until - window, 0), until)


def _spans_within(chunk: Chunk) -> list[tuple[int, int]]:
    return [(start, end) for start, end in chunk.bidirectional if end > chunk.start and start < chunk.end]


class StepPlan:
    """The step's flattened rows, chunk after chunk, and where their keys and values go."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = tuple(chunks)
        sizes = [chunk.end - chunk.start for chunk in self.chunks]
        self.row_starts: list[int] = [0]
        for size in sizes:
            self.row_starts.append(self.row_starts[-1] + size)
        self.num_rows = self.row_starts[-1]

    @cached_property
    def slots(self) -> np.ndarray:
        """int64 [rows]: each row's place, counted in tokens from the start of the pages."""
        slots = np.empty(self.num_rows, dtype=np.int64)
        for index, (start, end, table, _) in enumerate(self.chunks):
            row = self.row_starts[index]
            if end - start == 1:
                slots[row] = table[start // BLOCK_SIZE] * BLOCK_SIZE + start % BLOCK_SIZE
                continue
            first_block = start // BLOCK_SIZE
            blocks = np.asarray(table[first_block : -(-end // BLOCK_SIZE)], dtype=np.int64)
            places = np.arange(start, end) - first_block * BLOCK_SIZE
            slots[row : row + end - start] = blocks[places // BLOCK_SIZE] * BLOCK_SIZE + places % BLOCK_SIZE
        return slots


class AttentionBackend(Protocol):
    """Protocol: plan once a step, then the model calls `attend` of what it returns, layer after layer."""

    name: str

    def plan(self, chunks: Sequence[Chunk]) -> PagedAttention: ...
