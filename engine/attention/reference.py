"""Paged attention at its plainest: gather, float32 arithmetic, explicit masks. The oracle of the others."""

from collections.abc import Sequence

import torch

from engine.attention.base import Chunk, StepPlan, key_ranges
from kvcache.sequence import BLOCK_SIZE
from models.interface import AttentionSpec


class ReferenceBackend:
    """keys, values: for each layer [num_blocks, 16, kv_heads, head_dim]."""

    name = "reference"

    def __init__(
        self, spec: AttentionSpec, keys: Sequence[torch.Tensor], values: Sequence[torch.Tensor]
    ) -> None:
        self.spec, self.keys, self.values = spec, keys, values

    def plan(self, chunks: Sequence[Chunk]) -> "ReferenceAttention":
        return ReferenceAttention(self, StepPlan(chunks))


class ReferenceAttention:
    def __init__(self, backend: ReferenceBackend, plan: StepPlan) -> None:
        self.backend, self.step = backend, plan

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        keys, values = self.backend.keys[layer].flatten(0, 1), self.backend.values[layer].flatten(0, 1)
        slots = torch.from_numpy(self.step.slots).to(keys.device)
        keys[slots], values[slots] = k, v
        outputs = []
        for index, chunk in enumerate(self.step.chunks):
            rows = slice(self.step.row_starts[index], self.step.row_starts[index + 1])
            places = torch.arange(chunk.end, device=keys.device)
            table = torch.tensor(list(chunk.block_table), device=keys.device)
            held = table[places // BLOCK_SIZE] * BLOCK_SIZE + places % BLOCK_SIZE
            outputs.append(self._attend_one(layer, chunk, q[rows], keys[held], values[held]))
        return torch.cat(outputs).to(q.dtype)

    def _attend_one(
        self, layer: int, chunk: Chunk, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        spec = self.backend.spec
        group = spec.num_heads // spec.num_kv_heads
        keys = keys.float().repeat_interleave(group, dim=1)  # [keys, heads, head_dim]
        values = values.float().repeat_interleave(group, dim=1)
        first, until = (torch.from_numpy(x).to(q.device) for x in key_ranges(chunk, spec.windows[layer]))
        places = torch.arange(chunk.end, device=q.device)
        hidden = (places < first[:, None]) | (places >= until[:, None])  # [rows, keys]
        scores = torch.einsum("rhd,khd->hrk", q.float(), keys) * spec.scale
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        return torch.einsum("hrk,khd->rhd", weights, values)
