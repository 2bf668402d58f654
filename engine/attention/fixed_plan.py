"""Decode steps of one number of rows, planned into places on the device that never move.

So that launches can be recorded once and be right for every such step: their number and their programs are
always the same, and all that a step changes is read from these places.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from engine.attention.base import Chunk
from engine.attention.device_buffer import FixedBuffer
from engine.attention.triton_kernels import tiles
from engine.attention.triton_kernels.attend import WORK_FIELDS
from engine.attention.triton_kernels.join import JOIN_FIELDS
from kvcache.sequence import BLOCK_SIZE

if TYPE_CHECKING:  # it makes these plans
    from engine.attention.triton_backend import TritonBackend


class TritonFixedPlan:
    """`base.FixedPlan`: programs stride over the step's work items, whose number they read too."""

    def __init__(self, backend: "TritonBackend", num_rows: int, inputs: Sequence[tuple[int, ...]]) -> None:
        self._backend = backend
        most = min(tiles.FIXED_ITEMS, len(backend.parts))
        shapes = [*inputs, (num_rows,)]
        for _ in dict.fromkeys(backend.spec.windows):
            shapes += [(num_rows, 2), (1,), (num_rows, JOIN_FIELDS), (most, WORK_FIELDS)]
        shapes.append((most * tiles.PART_KEYS // BLOCK_SIZE + num_rows,))
        self._buffer = FixedBuffer(shapes, backend.keys[0].device)
        self.inputs = self._buffer.places[: len(inputs)]
        num_programs = min(most, max(1, tiles.FIXED_PROGRAMS // backend.spec.num_kv_heads))
        like_all = backend.host_plan([Chunk(0, 1, [0])] * num_rows)
        self.attention = backend.taken_apart(like_all, self._buffer.places[len(inputs) :], num_programs)

    def load(self, chunks: Sequence[Chunk], inputs: Sequence[np.ndarray]) -> bool:
        plan = self._backend.host_plan(chunks)
        in_one_launch = all(len(sight.launches) == 1 for sight in plan.sights.values())
        return in_one_launch and self._buffer.upload([*inputs, *plan.arrays()])
