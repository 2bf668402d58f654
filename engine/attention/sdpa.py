"""The portable back end: gather each sequence's keys into a reused workspace, then torch's own kernels.

Chunks are attended one by one, so a row's result never depends on what else is in the step.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from engine.attention.base import Chunk, StepPlan, key_ranges
from kvcache.sequence import BLOCK_SIZE
from models.interface import AttentionSpec

SCORES_AT_ONCE = 1 << 24
"""Rows of a chunk are attended so many at a time that they have no more scores than these. Some of torch's
kernels for GPUs keep them all: 64 MiB in float32, and as much for each of mask, sum and softmax."""

SPARE = 2
"""Times as much as needed is gathered into: a growing sequence asks again every block."""


def workspace_bytes(spec: AttentionSpec, dtype: torch.dtype, num_keys: int) -> int:
    """What a step takes at most beside its inputs and its output, with sequences of up to `num_keys`: keys
    and values gathered, the same in float32 for kernels that work in it, and scores."""
    num_elements = 2 * num_keys * spec.num_kv_heads * spec.head_dim
    return num_elements * (SPARE * dtype.itemsize + 2 * 4) + 4 * 4 * SCORES_AT_ONCE


class SdpaBackend:
    """keys, values: for each layer [num_blocks, 16, kv_heads, head_dim]."""

    name = "sdpa"
    scores_at_once = SCORES_AT_ONCE

    def __init__(
        self, spec: AttentionSpec, keys: Sequence[torch.Tensor], values: Sequence[torch.Tensor]
    ) -> None:
        self.spec, self.keys, self.values = spec, keys, values
        self._workspace = torch.empty(0, dtype=keys[0].dtype, device=keys[0].device)

    def plan(self, chunks: Sequence[Chunk]) -> "SdpaAttention":
        return SdpaAttention(self, StepPlan(chunks))

    def gather(self, layer: int, blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of `blocks`, [len(blocks) * 16, kv_heads, head_dim]; valid until the next call."""
        spec = self.spec
        shape = (2, len(blocks), BLOCK_SIZE, spec.num_kv_heads, spec.head_dim)
        size = 2 * len(blocks) * BLOCK_SIZE * spec.num_kv_heads * spec.head_dim
        if self._workspace.numel() < size:
            self._workspace = self._workspace.new_empty(0)  # the old one is free before the new one is taken
            self._workspace = self._workspace.new_empty(SPARE * size)
        space = self._workspace[:size].view(shape)
        torch.index_select(self.keys[layer], 0, blocks, out=space[0])
        torch.index_select(self.values[layer], 0, blocks, out=space[1])
        return space[0].flatten(0, 1), space[1].flatten(0, 1)


class _Tile(NamedTuple):
    """Some query rows of a chunk, and the keys between the first and the last that any of them sees, both
    counted in the share."""

    rows: slice
    keys: slice
    is_causal: bool
    sees_all: bool
    """Every row sees every key: no mask."""


class _Share:
    """One chunk under one window: the blocks to gather, and its rows in tiles."""

    def __init__(self, chunk: Chunk, window: int | None, backend: SdpaBackend) -> None:
        self._first, self._until = key_ranges(chunk, window)
        lowest = int(self._first.min())
        self._group = backend.spec.num_heads // backend.spec.num_kv_heads
        self._device = backend.keys[0].device
        self._mask: torch.Tensor | None = None
        self.self_contained = lowest == chunk.start
        base = lowest // BLOCK_SIZE
        self._origin = lowest if self.self_contained else base * BLOCK_SIZE
        table = np.asarray(chunk.block_table[base : -(-chunk.end // BLOCK_SIZE)], dtype=np.int64)
        self.blocks = torch.from_numpy(table).to(self._device)
        size = chunk.end - chunk.start
        step = max(1, backend.scores_at_once // (backend.spec.num_heads * (chunk.end - lowest)))
        self.tiles = [self._tile(chunk, start, min(start + step, size)) for start in range(0, size, step)]

    def mask(self, tile: _Tile) -> torch.Tensor | None:
        """bool [rows of a group's heads, keys], head after head. Kept if there is one tile, else made anew
        for each layer: of all tiles together it would be large."""
        if tile.sees_all:
            return None
        if self._mask is not None:
            return self._mask
        first, until = (
            torch.from_numpy(x[tile.rows, None]).to(self._device) for x in (self._first, self._until)
        )
        begin = self._origin + tile.keys.start
        places = torch.arange(begin, self._origin + tile.keys.stop, dtype=torch.int32, device=self._device)
        mask = ((places >= first) & (places < until)).repeat(self._group, 1)
        if len(self.tiles) == 1:
            self._mask = mask
        return mask

    def _tile(self, chunk: Chunk, start: int, end: int) -> _Tile:
        first, until = self._first[start:end], self._until[start:end]
        lowest, highest = int(first.min()), int(until.max())
        plain = np.array_equal(until, np.arange(chunk.start + start + 1, chunk.start + end + 1))
        return _Tile(
            slice(start, end),
            slice(lowest - self._origin, highest - self._origin),
            is_causal=plain and end - start > 1 and lowest == first.max() == chunk.start + start,
            sees_all=lowest == first.max() and highest == until.min(),
        )


class SdpaAttention:
    """One planned step."""

    def __init__(self, backend: SdpaBackend, plan: StepPlan) -> None:
        self.backend, self.step = backend, plan
        self._device = backend.keys[0].device
        self._slots = torch.from_numpy(plan.slots).to(self._device)
        self._shares: dict[int | None, list[_Share]] = {}

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        self._write(layer, k, v)
        output = torch.empty_like(q)
        starts = self.step.row_starts
        for index, share in enumerate(self._shares_of(self.backend.spec.windows[layer])):
            rows = slice(starts[index], starts[index + 1])
            self._attend_one(layer, share, q[rows], k[rows], v[rows], output[rows])
        return output

    def _write(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
        """Put k and v [rows, kv_heads, head_dim] at the rows' slots."""
        self.backend.keys[layer].flatten(0, 1).index_copy_(0, self._slots, k)
        self.backend.values[layer].flatten(0, 1).index_copy_(0, self._slots, v)

    def _shares_of(self, window: int | None) -> list[_Share]:
        if window not in self._shares:
            self._shares[window] = [_Share(chunk, window, self.backend) for chunk in self.step.chunks]
        return self._shares[window]

    def _attend_one(
        self,
        layer: int,
        share: _Share,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        output: torch.Tensor,
    ) -> None:
        if not share.self_contained:
            k, v = self.backend.gather(layer, share.blocks)
        k, v = k.transpose(0, 1)[None], v.transpose(0, 1)[None]  # [1, kv_heads, keys, head_dim]
        for tile in share.tiles:
            queries, keys, values = q[tile.rows], k[:, :, tile.keys], v[:, :, tile.keys]
            if tile.is_causal:
                output[tile.rows] = self._attend_causal(queries, keys, values)
            else:
                output[tile.rows] = self._attend_grouped(queries, keys, values, share.mask(tile))

    def _attend_causal(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """As many rows as keys: row i sees the keys up to i."""
        spec = self.backend.spec
        attended = scaled_dot_product_attention(
            q.transpose(0, 1)[None],
            k,
            v,
            is_causal=True,
            scale=spec.scale,
            enable_gqa=spec.num_heads != spec.num_kv_heads,
        )
        return attended[0].transpose(0, 1)

    def _attend_grouped(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        """The query heads of a group become query rows of its key head: no copies of keys."""
        spec = self.backend.spec
        grouped = q.unflatten(1, (spec.num_kv_heads, -1)).permute(1, 2, 0, 3)  # [kv_heads, group, rows, dim]
        attended = scaled_dot_product_attention(
            grouped.flatten(1, 2)[None], k, v, attn_mask=mask, scale=spec.scale
        )
        return attended[0].unflatten(1, grouped.shape[1:3]).permute(2, 0, 1, 3).flatten(1, 2)
