"""What a back end is told about a step, in plain numbers. Knows neither requests nor tensors of a model."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch

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
        if chunk.bidirectional and _spans_within(chunk):
            ranges.first[rows], ranges.until[rows] = key_ranges(chunk, window)
    return ranges


def _causal(chunks: Sequence[Chunk], window: int | None) -> KeyRanges:
    sizes = np.array([chunk.end - chunk.start for chunk in chunks])
    last = np.array([chunk.end for chunk in chunks]) - sizes.cumsum()
    until = (np.repeat(last, sizes) + np.arange(1, sizes.sum() + 1)).astype(np.int32)
    return KeyRanges(np.zeros_like(until) if window is None else np.maximum(until - window, 0), until)


def _spans_within(chunk: Chunk) -> list[tuple[int, int]]:
    return [(start, end) for start, end in chunk.bidirectional if end > chunk.start and start < chunk.end]


class StepPlan:
    """The step's flattened rows, chunk after chunk, and where their keys and values go."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = tuple(chunks)
        self.sizes = np.array([chunk.end - chunk.start for chunk in self.chunks])
        self.row_starts: list[int] = [0, *self.sizes.cumsum().tolist()]
        self.num_rows = self.row_starts[-1]

    @cached_property
    def tables(self) -> np.ndarray:
        """int32: every chunk's block table, one behind the other."""
        return np.concatenate([np.asarray(chunk.block_table, dtype=np.int32) for chunk in self.chunks])

    @cached_property
    def table_starts(self) -> np.ndarray:
        """int32 [chunks]: where each one's begins in `tables`."""
        return np.cumsum([0, *(len(chunk.block_table) for chunk in self.chunks[:-1])], dtype=np.int32)

    @cached_property
    def slots(self) -> np.ndarray:
        """int64 [rows]: each row's place, counted in tokens from the start of the pages."""
        before_row = [c.start - row for c, row in zip(self.chunks, self.row_starts, strict=False)]
        places = np.repeat(before_row, self.sizes) + np.arange(self.num_rows)
        blocks = self.tables[np.repeat(self.table_starts, self.sizes) + places // BLOCK_SIZE]
        return blocks.astype(np.int64) * BLOCK_SIZE + places % BLOCK_SIZE


class AttentionBackend(Protocol):
    """Protocol: plan once a step, then the model calls `attend` of what it returns, layer after layer."""

    name: str

    def plan(self, chunks: Sequence[Chunk]) -> PagedAttention: ...


class FixedPlan(Protocol):
    """A plan for decode steps of one number of rows, in places that never move: what `attention` launches is
    always the same.

    inputs: int32, what else such a step reads.
    """

    inputs: list[torch.Tensor]

    @property
    def attention(self) -> PagedAttention: ...

    def load(self, chunks: Sequence[Chunk], inputs: Sequence[np.ndarray]) -> bool:
        """Make it the plan of these chunks, of one row each. inputs: int32, of the shapes of the places.

        Doesn't wait for the device. False, and nothing has changed, where there is no room for so many keys.
        """
        ...


@runtime_checkable
class FixedBackend(AttentionBackend, Protocol):
    """A back end whose decode steps can be recorded."""

    def fixed(self, num_rows: int, inputs: Sequence[tuple[int, ...]]) -> FixedPlan:
        """inputs: shapes of the plan's inputs."""
        ...
