"""The portable back end: gather each sequence's keys into a reused workspace, then torch's own kernels.

Chunks are attended one by one, so a row's result never depends on what else is in the step.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from engine.attention.base import Chunk, StepPlan, key_ranges
from kvcache.sequence import BLOCK_SIZE
from models.interface import AttentionSpec


class SdpaBackend:
    """keys, values: for each layer [num_blocks, 16, kv_heads, head_dim]."""

    name = "sdpa"

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
        if (
            self._workspace.numel() < size
        ):  # twice as much as needed: a growing sequence asks again every block
            self._workspace = self._workspace.new_empty(2 * size)
        space = self._workspace[:size].view(shape)
        torch.index_select(self.keys[layer], 0, blocks, out=space[0])
        torch.index_select(self.values[layer], 0, blocks, out=space[1])
        return space[0].flatten(0, 1), space[1].flatten(0, 1)


class _Share:
    """One chunk under one window: the blocks to gather, where its keys lie in them, and the mask if any."""

    def __init__(self, chunk: Chunk, window: int | None, device: torch.device) -> None:
        first, until = key_ranges(chunk, window)
        size = chunk.end - chunk.start
        lowest = int(first.min())
        causal = not np.any(first > lowest) and np.array_equal(
            until, np.arange(chunk.start + 1, chunk.end + 1)
        )
        self.self_contained = lowest == chunk.start
        self.is_causal = causal and self.self_contained and size > 1
        base = lowest // BLOCK_SIZE
        table = np.asarray(chunk.block_table[base : -(-chunk.end // BLOCK_SIZE)], dtype=np.int64)
        self.blocks = torch.from_numpy(table).to(device)
        self.keys = slice(lowest - base * BLOCK_SIZE, chunk.end - base * BLOCK_SIZE)
        self.mask: torch.Tensor | None = None
        if size > 1 and not self.is_causal:
            places = np.arange(lowest, chunk.end)
            seen = (places >= first[:, None]) & (places < until[:, None])
            self.mask = torch.from_numpy(seen).to(device)


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
            output[rows] = self._attend_one(layer, share, q[rows], k[rows], v[rows])
        return output

    def _write(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
        """Put k and v [rows, kv_heads, head_dim] at the rows' slots."""
        self.backend.keys[layer].flatten(0, 1).index_copy_(0, self._slots, k)
        self.backend.values[layer].flatten(0, 1).index_copy_(0, self._slots, v)

    def _shares_of(self, window: int | None) -> list[_Share]:
        if window not in self._shares:
            self._shares[window] = [_Share(chunk, window, self._device) for chunk in self.step.chunks]
        return self._shares[window]

    def _attend_one(
        self, layer: int, share: _Share, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        spec = self.backend.spec
        if not share.self_contained:
            keys, values = self.backend.gather(layer, share.blocks)
            k, v = keys[share.keys], values[share.keys]
        k, v = k.transpose(0, 1)[None], v.transpose(0, 1)[None]  # [1, kv_heads, keys, head_dim]
        if q.shape[0] == 1:
            # The query heads of a group become query rows of its key head: no copies of keys, no mask.
            grouped = q.view(1, spec.num_kv_heads, -1, spec.head_dim)
            return scaled_dot_product_attention(grouped, k, v, scale=spec.scale).view(q.shape)
        attended = scaled_dot_product_attention(
            q.transpose(0, 1)[None],
            k,
            v,
            attn_mask=share.mask,
            is_causal=share.is_causal,
            scale=spec.scale,
            enable_gqa=spec.num_heads != spec.num_kv_heads,
        )
        return attended[0].transpose(0, 1)
