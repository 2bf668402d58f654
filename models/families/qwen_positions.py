"""Learned positions of a vision tower: a square table, stretched over a picture's patches."""

from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F

_NUM_GRIDS = 8
"""Sizes of pictures whose taps are kept; they take 48 bytes a patch."""


class Taps(NamedTuple):
    """Between which four rows of the table a patch lies, and how much of each it gets: [patches, 4] both."""

    rows: torch.Tensor
    shares: torch.Tensor


class LearnedPositions:
    """table: [at least side * side, width], row by row. merge: side of a merged patch."""

    def __init__(self, table: torch.Tensor, side: int, merge: int) -> None:
        self.table = table.float()
        self._taps = lru_cache(_NUM_GRIDS)(
            lambda rows, columns: Taps(*(part.to(table.device) for part in taps(rows, columns, side, merge)))
        )

    def __call__(self, rows: int, columns: int) -> torch.Tensor:
        """float32 [rows * columns, width]; the patches of a merged patch stand together."""
        taps = self._taps(rows, columns)
        return F.embedding_bag(taps.rows, self.table, mode="sum", per_sample_weights=taps.shares)


def taps(rows: int, columns: int, side: int, merge: int) -> Taps:
    """Bilinear, the table's corners on the picture's; int64 and float32."""
    above, down = _along(rows, side)
    left, right = _along(columns, side)
    places = above[:, None, :, None] * side + left[None, :, None, :]
    shares = down[:, None, :, None] * right[None, :, None, :]
    return Taps(*(_in_merged_patches(part.flatten(2), merge) for part in (places, shares)))


def _along(length: int, side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The two places of the table around each of `length` patches of one axis, and their shares."""
    at = torch.arange(length, dtype=torch.float32) * (side - 1) / max(length - 1, 1)
    first = at.floor()
    share = at - first
    places = torch.stack((first, first + 1), dim=1).long().clamp(max=side - 1)
    return places, torch.stack((1 - share, share), dim=1)


def _in_merged_patches(x: torch.Tensor, merge: int) -> torch.Tensor:
    """[rows, columns, n] -> [rows * columns, n]."""
    split = x.unflatten(1, (-1, merge)).unflatten(0, (-1, merge))
    return split.transpose(1, 2).flatten(0, 3)
