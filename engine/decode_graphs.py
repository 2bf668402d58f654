"""The forward pass of decode steps, recorded once for each of a few numbers of rows.

Small steps on a GPU are bound by launching their kernels one by one; a recording (a CUDA graph) launches all
at once. It reads everything that differs between steps from places that never move. A step with fewer rows
is filled up with rows of nobody, which write to a block of nobody. Knows neither what a recording is made of
nor what a token means.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from typing import NamedTuple, Protocol

import numpy as np
import torch

from engine.attention.base import Chunk, FixedBackend
from engine.batch import HostBatch
from models.interface import ForwardBatch, ServedModel


class Recording(Protocol):
    """output: of the call that was recorded, the same tensor after every replay."""

    output: torch.Tensor

    def replay(self) -> None: ...


Recorder = Callable[[Callable[[], torch.Tensor]], Recording]
"""Records what a call sends to the device. The call may be made several times for that."""


MOST_ROWS = 256
"""Larger steps take longer on the device than launching them does, and their keys soon more work items than a
back end has room for."""


def row_counts(most: int) -> list[int]:
    """Numbers of rows that are recorded, ascending to `most` or MOST_ROWS: from 8 on at most half of one's
    rows, and from 64 on a quarter, are nobody's."""
    most, counts = min(most, MOST_ROWS), [1]
    while counts[-1] < most:
        last = counts[-1]
        step = last if last < 8 else max(8, (1 << last.bit_length() - 1) // 4)
        counts.append(min(last + step, most))
    return counts


class Padded(NamedTuple):
    """A step filled up to a recorded number of rows. ids int64 [rows], positions int64 [axes, rows]."""

    chunks: list[Chunk]
    ids: np.ndarray
    positions: np.ndarray


class DecodeStep:
    """A step of `num_rows` rows: `load` one, then `run`, or replay what that did. spare_block: nobody's."""

    def __init__(self, model: ServedModel, backend: FixedBackend, num_rows: int, spare_block: int) -> None:
        self.num_rows, self._model = num_rows, model
        self._filler = Chunk(0, 1, [spare_block])
        self.num_axes = model.processing.positions(1, (), ()).ids.shape[0]
        # int64 travels as pairs of int32.
        self._plan = backend.fixed(num_rows, [(2 * num_rows,), (self.num_axes, 2 * num_rows)])
        ids, positions = (place.view(torch.int64) for place in self._plan.inputs)
        self._batch = ForwardBatch(ids, positions, ())

    def padded(self, chunks: Seq[Chunk], ids: np.ndarray, positions: np.ndarray) -> Padded:
        """chunks: up to num_rows, of one row each."""
        rows = len(chunks)
        padded = Padded(
            [*chunks, *[self._filler] * (self.num_rows - rows)],
            np.zeros(self.num_rows, np.int64),
            np.zeros((self.num_axes, self.num_rows), np.int64),
        )
        padded.ids[:rows], padded.positions[:, :rows] = ids, positions
        return padded

    def load(self, step: Padded) -> bool:
        """False if its rows see more keys than there is room for."""
        return self._plan.load(step.chunks, (step.ids.view(np.int32), step.positions.view(np.int32)))

    def run(self) -> torch.Tensor:
        """Hidden states [num_rows, hidden_size] of what was loaded last."""
        return self._model.forward(self._batch, self._plan.attention)


class DecodeGraphs:
    """recorded: by number of rows. They share memory: what one returns is gone once another is replayed."""

    def __init__(self, recorded: Mapping[int, tuple[DecodeStep, Recording]]) -> None:
        self._recorded = dict(sorted(recorded.items()))
        self.row_counts = list(self._recorded)

    def forward(self, chunks: Seq[Chunk], batch: HostBatch) -> torch.Tensor | None:
        """Hidden states [rows, hidden_size]; None for a step that was not recorded: with rows of prompts,
        too many, or too many keys."""
        if batch.media or len(batch.ids) != len(chunks) or len(chunks) > self.row_counts[-1]:
            return None
        step, recording = self._recorded[self.row_counts[bisect_left(self.row_counts, len(chunks))]]
        if not step.load(step.padded(chunks, batch.ids, batch.positions)):
            return None
        recording.replay()
        return recording.output[: len(chunks)]
