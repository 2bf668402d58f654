"""The CPU's own back end: short chunks attend in C, straight from their pages, long chunks as in `sdpa`."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch

from engine.attention.base import Chunk, StepPlan, key_ranges
from engine.attention.sdpa import SdpaAttention, SdpaBackend
from engine.native.library import DTYPES, CHeads, CSight, Library, type_code
from models.interface import AttentionSpec

MAX_SHORT = 4
"""Rows up to which a chunk attends row by row: more are faster together, by matrix products."""

HEAD_DIM_STEP = 16


class NativeBackend(SdpaBackend):
    """keys, values: for each layer [num_blocks, 16, kv_heads, head_dim], float32 or bfloat16, contiguous.

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
        super().__init__(spec, keys, values)
        dtype = keys[0].dtype
        if keys[0].device.type != "cpu":
            raise ValueError(f"the native back end runs on the CPU, not on {keys[0].device}")
        if dtype not in DTYPES:
            raise ValueError(f"the native back end has no kernels for {dtype}")
        if spec.head_dim % HEAD_DIM_STEP:
            raise ValueError(f"the native back end takes no heads of {spec.head_dim} elements")
        self.library = library
        self.heads = CHeads(spec.num_heads, spec.num_kv_heads, spec.head_dim, type_code(dtype), spec.scale)

    def plan(self, chunks: Sequence[Chunk]) -> "NativeAttention":
        return NativeAttention(self, StepPlan(chunks))


class Sight:
    """For each row of some chunks, the pages and the range of keys that it sees under one window."""

    def __init__(self, chunks: Sequence[Chunk], window: int | None) -> None:
        tables, starts, firsts, untils = [], [], [], []
        at = 0
        for chunk in chunks:
            size = chunk.end - chunk.start
            tables.append(np.asarray(chunk.block_table, dtype=np.int32))
            starts += [at] * size
            at += len(tables[-1])
            if size == 1 and not any(start <= chunk.start < end for start, end in chunk.bidirectional):
                firsts.append(max(chunk.end - window, 0) if window is not None else 0)
                untils.append(chunk.end)
            else:
                first, until = key_ranges(chunk, window)
                firsts += first.tolist()
                untils += until.tolist()
        arrays = np.concatenate(tables), *(np.array(x, dtype=np.int32) for x in (starts, firsts, untils))
        self._kept = arrays
        self.struct = CSight(*(array.ctypes.data for array in arrays))


class NativeAttention(SdpaAttention):
    """One planned step."""

    backend: NativeBackend

    def __init__(self, backend: NativeBackend, plan: StepPlan) -> None:
        super().__init__(backend, plan)
        self._sights: dict[int | None, Sight] = {}
        self._short_sights: dict[int | None, Sight] = {}

    def sight(self, window: int | None) -> Sight:
        """Of all rows of the step."""
        if window not in self._sights:
            self._sights[window] = Sight(self.step.chunks, window)
        return self._sights[window]

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        self.write(layer, k, v)
        output = torch.empty_like(q)
        window = self.backend.spec.windows[layer]
        starts = self.step.row_starts
        short = self._short
        if short:
            if window not in self._short_sights:
                self._short_sights[window] = Sight([self.step.chunks[i] for i in short], window)
            rows = self._short_rows
            pages = self.backend.keys[layer], self.backend.values[layer]
            attended = self.backend.library.attend_rows(
                self.backend.heads, self._short_sights[window].struct, q[rows].float().contiguous(), *pages
            )
            output[rows] = attended.to(q.dtype)
        if len(short) < len(self.step.chunks):
            for index, share in enumerate(self.shares_of(window)):
                if index not in short:
                    rows = slice(starts[index], starts[index + 1])
                    output[rows] = self.attend_one(layer, share, q[rows], k[rows], v[rows])
        return output

    @cached_property
    def _short(self) -> dict[int, None]:
        """Numbers of the chunks whose rows attend one by one, in order."""
        return dict.fromkeys(i for i, c in enumerate(self.step.chunks) if c.end - c.start <= MAX_SHORT)

    @cached_property
    def _short_rows(self) -> torch.Tensor:
        starts = self.step.row_starts
        return torch.from_numpy(np.concatenate([np.arange(starts[i], starts[i + 1]) for i in self._short]))
