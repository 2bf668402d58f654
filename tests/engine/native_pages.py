"""Pages in the order of the native back end (pages.h), and back, said with permutations."""

from collections.abc import Sequence

import torch

from engine.attention.base import Chunk
from engine.attention.native import NativeAttention, NativeBackend
from engine.native.library import Library
from models.interface import AttentionSpec

_TILE = 32


def packed(pages: torch.Tensor, are_keys: bool) -> torch.Tensor:
    """[blocks, 16, heads, dim] -> the same shape, each head's elements where the kernels look for them."""
    return _in_order(pages, are_keys, 2 if pages.dtype == torch.bfloat16 else 1).reshape(pages.shape)


def unpacked(pages: torch.Tensor, are_keys: bool) -> torch.Tensor:
    together = 2 if pages.dtype == torch.bfloat16 else 1
    places = _in_order(torch.arange(pages.numel()).view(pages.shape), are_keys, together).flatten()
    plain = torch.empty_like(pages)
    plain.view(-1)[places] = pages.flatten()
    return plain


def _in_order(pages: torch.Tensor, are_keys: bool, together: int) -> torch.Tensor:
    blocks, size, heads, dim = pages.shape
    if are_keys:
        return pages.view(blocks, size, heads, dim // together, together).permute(0, 2, 3, 1, 4).contiguous()
    tiles = []
    for tile in pages.split(_TILE, -1):
        pairs = tile.reshape(blocks, size // together, together, heads, -1).permute(0, 3, 1, 4, 2)
        tiles.append(pairs.flatten(2))
    return torch.cat(tiles, 2)


class NativeOnPlainPages:
    """A NativeBackend for tests that hand over plain pages and look into them afterwards."""

    def __init__(
        self,
        spec: AttentionSpec,
        keys: Sequence[torch.Tensor],
        values: Sequence[torch.Tensor],
        library: Library,
    ) -> None:
        self._plain = keys, values
        self._backend = NativeBackend(
            spec, [packed(k, True) for k in keys], [packed(v, False) for v in values], library
        )

    def plan(self, chunks: Sequence[Chunk]) -> "NativeOnPlainPages":
        self._planned: NativeAttention = self._backend.plan(chunks)
        return self

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out = self._planned.attend(layer, q, k, v)
        keys, values = self._plain
        keys[layer].copy_(unpacked(self._backend.keys[layer], True))
        values[layer].copy_(unpacked(self._backend.values[layer], False))
        return out
