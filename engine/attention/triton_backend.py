"""The back end for NVIDIA GPUs: pages are read where they lie, by kernels of our own.

A step is planned once, in one copy to the device; the layers then only launch. Importing it needs `triton`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from engine.attention.base import Chunk, FixedPlan, StepPlan
from engine.attention.device_buffer import DeviceBuffer
from engine.attention.fixed_plan import TritonFixedPlan
from engine.attention.triton_kernels import tiles
from engine.attention.triton_kernels.attend import Items, attend
from engine.attention.triton_kernels.dialect import INTERPRETED
from engine.attention.triton_kernels.join import join
from engine.attention.triton_kernels.write import write
from engine.attention.triton_plan import HostPlan, SightPlan, Tiles, step_sight
from models.interface import AttentionSpec

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
MIN_CAPABILITY = (8, 0)
"""Older cards have neither bfloat16 nor copies beside the arithmetic, and nothing was compiled for them."""


class TritonBackend:
    """keys, values: for each layer [num_blocks, 16, kv_heads, head_dim], contiguous.

    ValueError where the kernels don't take them.
    """

    name = "triton"

    def __init__(
        self, spec: AttentionSpec, keys: Sequence[torch.Tensor], values: Sequence[torch.Tensor]
    ) -> None:
        _refuse_what_no_kernel_takes(spec, keys[0])
        self.spec, self.keys, self.values = spec, keys, values
        group, head_dim, dtype = spec.num_heads // spec.num_kv_heads, spec.head_dim, keys[0].dtype
        kinds = (tiles.decode_tile, tiles.tail_tile, tiles.prefill_tile)
        self.tiles = tuple(kind(group, head_dim, dtype) for kind in kinds)
        device = keys[0].device
        self.buffer = DeviceBuffer(device)
        row_bytes = 4 * spec.num_heads * (spec.head_dim + 1)
        rows = max(tiles.WORKSPACE_BYTES // row_bytes, 2 * max(tile.queries for tile in self.tiles))
        self.parts = torch.empty(rows, spec.num_heads, spec.head_dim, device=device)
        self.weights = torch.empty(rows, spec.num_heads, device=device)

    def plan(self, chunks: Sequence[Chunk]) -> "TritonAttention":
        """Valid until the next one is planned: they share a buffer."""
        plan = self.host_plan(chunks)
        return self.taken_apart(plan, self.buffer.upload(plan.arrays()))

    def fixed(self, num_rows: int, inputs: Sequence[tuple[int, ...]]) -> FixedPlan:
        return TritonFixedPlan(self, num_rows, inputs)

    def host_plan(self, chunks: Sequence[Chunk]) -> HostPlan:
        step = StepPlan(chunks)
        cut = Tiles(step, [tile.queries for tile in self.tiles], [_kind(chunk) for chunk in step.chunks])
        kinds = np.unique(cut.kind).tolist()
        sights = {}
        for window in dict.fromkeys(self.spec.windows):
            sight = step_sight(step, window)
            works = ((kind, work) for kind in kinds for work in cut.work(kind, sight, *self._sharing(kind)))
            sights[window] = SightPlan(sight, list(works))
        return HostPlan(step.slots.astype(np.int32), sights, step.tables)

    def taken_apart(
        self, plan: HostPlan, places: Sequence[torch.Tensor], num_programs: int | None = None
    ) -> "TritonAttention":
        """places: on the device, for each of `plan.arrays()`. num_programs: see `Items`; None: one each."""
        slots, *others, tables = places
        rest, sights = iter(others), {}
        for window, (_, launches) in plan.sights.items():
            sight, launched = next(rest), []
            for kind, _ in launches:
                num_items, joins, work = next(rest), next(rest), next(rest)
                launched.append(
                    Launch(self.tiles[kind], Items(work, num_items, num_programs or len(work)), joins)
                )
            sights[window] = Sight(sight, launched)
        return TritonAttention(self, slots, sights, tables)

    def _sharing(self, kind: int) -> tuple[int | None, int]:
        """What `Tiles.work` is told of one kind of tile: keys of a part, and part rows of a launch."""
        return tiles.PART_KEYS if self.tiles[kind].parts else None, len(self.parts)


class Launch(NamedTuple):
    tile: tiles.Tile
    items: Items
    joins: torch.Tensor


class Sight(NamedTuple):
    """A step under one window. sight: int32 [rows, 2], see triton_plan."""

    sight: torch.Tensor
    launches: list[Launch]


class TritonAttention:
    """One planned step, on the device. slots and tables: see `HostPlan`."""

    def __init__(
        self,
        backend: TritonBackend,
        slots: torch.Tensor,
        sights: dict[int | None, Sight],
        tables: torch.Tensor,
    ) -> None:
        self.backend = backend
        self._slots, self._sights, self._tables = slots, sights, tables

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        spec = self.backend.spec
        pages = self.backend.keys[layer], self.backend.values[layer]
        queries, k, v = (_whole_rows(x, pages[0].dtype) for x in (q, k, v))
        write(k, v, *pages, self._slots)
        out = torch.empty(queries.shape, dtype=queries.dtype, device=queries.device)
        parts, weights = self.backend.parts, self.backend.weights
        sight, launches = self._sights[spec.windows[layer]]
        for tile, items, joins in launches:
            made = parts if tile.parts else out
            attend(spec, tile, queries, pages, made, weights, self._tables, sight, items)
            if tile.parts:
                join(spec, tile.queries, parts, weights, out, joins)
        return out.to(q.dtype)


def _kind(chunk: Chunk) -> int:
    """Which of a back end's tiles. By the chunk alone, so that no result depends on the rest of a step."""
    size = chunk.end - chunk.start
    if size == 1:
        return 0
    return 1 if size <= tiles.TAIL_ROWS and chunk.end > tiles.PART_KEYS else 2


def _whole_rows(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """x [rows, heads, head_dim], each row in one piece; rows may lie apart, as in a slice of a product."""
    x = x.to(dtype)
    return x if x.stride(2) == 1 and x.stride(1) == x.shape[2] else x.contiguous()


def _refuse_what_no_kernel_takes(spec: AttentionSpec, pages: torch.Tensor) -> None:
    if pages.device.type != "cuda" and not INTERPRETED:
        raise ValueError(f"the triton back end runs on a GPU, not on {pages.device}")
    if pages.is_cuda and torch.cuda.get_device_capability(pages.device) < MIN_CAPABILITY:
        raise ValueError("the triton back end needs a GPU of compute capability 8.0 or more")
    if pages.dtype not in DTYPES:
        raise ValueError(f"the triton back end has no kernels for {pages.dtype}")
    if spec.head_dim > tiles.MAX_HEAD_DIM:
        raise ValueError(f"the triton back end takes no heads of {spec.head_dim} elements")
    if spec.num_heads // spec.num_kv_heads > tiles.MAX_GROUP:
        raise ValueError(
            f"the triton back end takes at most {tiles.MAX_GROUP} query heads for a key head, "
            f"not {spec.num_heads // spec.num_kv_heads}"
        )
    if not pages.is_contiguous():
        raise ValueError("the triton back end takes contiguous pages only")
