"""Weights in the order in which the C kernels read them: tiles of 32 outputs, each one stream of memory."""

import torch
from torch.nn.functional import pad

from engine.native.library import CMatrix, type_code

LANES = 16
TILE = 2 * LANES


class PackedMatrix:
    """A copy of weight [out, in], float32 or bfloat16, `in` a multiple of 16; `out` is padded with zeros.

    paired: the rows are two halves (gate and up), each a multiple of 16; a tile gets 16 of each.
    """

    def __init__(self, weight: torch.Tensor, paired: bool = False) -> None:
        outputs, inputs = weight.shape
        if paired:
            weight = weight.view(2, -1, LANES, inputs).transpose(0, 1).reshape(outputs, inputs)
        tiles = pad(weight, (0, 0, 0, -outputs % TILE)).unflatten(0, (-1, TILE))
        if weight.dtype == torch.bfloat16:
            tiles = tiles.unflatten(-1, (-1, 2))  # [tiles, 32, in / 2, 2]
        self._tiles = tiles.transpose(1, 2).contiguous()
        self.struct = CMatrix(self._tiles.data_ptr(), type_code(weight.dtype), outputs, inputs)
