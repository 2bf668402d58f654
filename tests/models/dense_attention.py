"""Attention over one sequence, kept in plain tensors: what tests of a forward pass use for a back end."""

import torch
import torch.nn.functional as F

from models.interface import AttentionSpec


class DenseAttention:
    """Remembers keys and values of one sequence, layer by layer, so that it can be fed in pieces."""

    def __init__(self, spec: AttentionSpec) -> None:
        self.spec = spec
        self.keys: list[torch.Tensor | None] = [None] * spec.num_layers
        self.values: list[torch.Tensor | None] = [None] * spec.num_layers

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        self.keys[layer], k = self._appended(self.keys[layer], k)
        self.values[layer], v = self._appended(self.values[layer], v)
        out = F.scaled_dot_product_attention(
            q.transpose(0, 1)[None],
            k.transpose(0, 1)[None],
            v.transpose(0, 1)[None],
            attn_mask=self._visible(layer, len(q), len(k)),
            scale=self.spec.scale,
            enable_gqa=True,
        )
        return out[0].transpose(0, 1)

    def _visible(self, layer: int, num_queries: int, num_keys: int) -> torch.Tensor:
        query = torch.arange(num_keys - num_queries, num_keys)[:, None]
        key = torch.arange(num_keys)[None]
        window = self.spec.windows[layer]
        return (key <= query) & (key > query - window) if window is not None else key <= query

    @staticmethod
    def _appended(held: torch.Tensor | None, new: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        joined = new if held is None else torch.cat((held, new))
        return joined, joined
