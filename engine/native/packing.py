"""Weights in the order in which the C kernels read them: tiles of 32 outputs, each one stream of memory."""

import mmap
from contextlib import suppress

import torch
from torch.nn.functional import pad

from engine.native.library import CMatrix, Library, type_code

LANES = 16
TILE = 2 * LANES


class NativeMatrix:
    """`PackedMatrix` of a weight [out, in], float32 or bfloat16, `in` a multiple of 16.

    paired: the rows are two halves (gate and up), each a multiple of 16; a tile gets 16 of each.
    """

    def __init__(self, weight: torch.Tensor, library: Library, paired: bool = False) -> None:
        outputs, inputs = weight.shape
        self._library, self._paired = library, paired
        if paired:
            weight = in_pairs(weight)
        tiles = pad(weight, (0, 0, 0, -outputs % TILE)).unflatten(0, (-1, TILE))
        if weight.dtype == torch.bfloat16:
            tiles = tiles.unflatten(-1, (-1, 2))  # [tiles, 32, in / 2, 2]
        self._tiles = _in_large_pages(tiles.transpose(1, 2))
        self.struct = CMatrix(self._tiles.data_ptr(), type_code(weight.dtype), outputs, inputs)

    def multiply(self, x: torch.Tensor) -> torch.Tensor:
        """x [rows, in] -> float32 [rows, out]; a row's result does not depend on the others."""
        out = self._library.multiply(self.struct, x.contiguous())
        return out.unflatten(1, (-1, 2, LANES)).transpose(1, 2).flatten(1) if self._paired else out

    def __call__(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        out = self.multiply(x)
        return (out if bias is None else out + bias).to(x.dtype)


def in_pairs(halves: torch.Tensor) -> torch.Tensor:
    """Rows of the halves (gate and up, each a multiple of 16) in turns of 16, as a tile has them."""
    return halves.unflatten(0, (2, -1, LANES)).transpose(0, 1).flatten(0, 2)


def _in_large_pages(values: torch.Tensor) -> torch.Tensor:
    """A contiguous copy, in pages of 2 MiB where the kernel has them: a stream over small ones stops at each
    to look up the next."""
    mapping = mmap.mmap(-1, max(values.nbytes, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel built without them
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return (
        torch.frombuffer(mapping, dtype=values.dtype, count=values.numel()).view(values.shape).copy_(values)
    )
