"""The CPU's own back end: every row attends in C, straight from its pages.

A row's result is the same bits whatever is computed beside it, however its prompt was cut into chunks.
"""

from collections.abc import Sequence
from copy import copy

import numpy as np
import torch

from engine.attention.base import Chunk, StepPlan, step_ranges
from engine.native.library import DTYPES, CHeads, CSight, Library, type_code
from models.interface import AttentionSpec

HEAD_DIM_STEP = 16


class NativeBackend:
    """keys, values: for each layer [num_blocks, 16, kv_heads, head_dim], float32 or bfloat16, contiguous.
    Within a block their elements are kept in an order of their own: pages.h.

    ValueError where the C kernels don't take them.
    """

    name = "native"

    def __init__(
        self,
        spec: AttentionSpec,
        keys: Sequence[torch.Tensor],
        values: Sequence[torch.Tensor],
        library: Library,
    ) -> None:
        dtype = keys[0].dtype
        if keys[0].device.type != "cpu":
            raise ValueError(f"the native back end runs on the CPU, not on {keys[0].device}")
        if dtype not in DTYPES:
            raise ValueError(f"the native back end has no kernels for {dtype}")
        if spec.head_dim % HEAD_DIM_STEP:
            raise ValueError(f"the native back end takes no heads of {spec.head_dim} elements")
        self.spec, self.keys, self.values, self.library = spec, keys, values, library
        self.heads = CHeads(spec.num_heads, spec.num_kv_heads, spec.head_dim, type_code(dtype), spec.scale)

    def plan(self, chunks: Sequence[Chunk]) -> "NativeAttention":
        return NativeAttention(self, StepPlan(chunks))


class Sight:
    """For each row of a step, the pages and the range of keys that it sees under one window."""

    def __init__(self, step: StepPlan, window: int | None) -> None:
        starts = np.repeat(step.table_starts, step.sizes)
        self.struct = self._seen_by(step.tables, starts, *step_ranges(step.chunks, window))

    def of_rows(self, rows: np.ndarray) -> "Sight":
        """What these rows see alone. rows: int64 [n], ascending."""
        tables, *ranges = self._kept
        picked = copy(self)
        picked.struct = picked._seen_by(tables, *(array[rows] for array in ranges))
        return picked

    def _seen_by(self, tables: np.ndarray, *ranges: np.ndarray) -> CSight:
        self._kept = tables, *ranges
        return CSight(*(array.ctypes.data for array in self._kept), len(ranges[0]))


class NativeAttention:
    """One planned step."""

    def __init__(self, backend: NativeBackend, plan: StepPlan) -> None:
        self.backend, self.step = backend, plan
        self._sights: dict[int | None, Sight] = {}

    def sight(self, window: int | None) -> Sight:
        """What the step's rows see in layers of this window."""
        if window not in self._sights:
            self._sights[window] = Sight(self.step, window)
        return self._sights[window]

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        backend = self.backend
        keys, values = backend.keys[layer], backend.values[layer]
        k, v = k.float().contiguous(), v.float().contiguous()
        backend.library.write_rows(backend.heads, self.step.slots, k, v, keys, values)
        sight = self.sight(backend.spec.windows[layer])
        queries = q.float().contiguous()
        return backend.library.attend_rows(backend.heads, sight.struct, queries, keys, values).to(q.dtype)
