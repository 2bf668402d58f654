"""Where each patch of a picture stands, and with which others it attends: tables of a picture's size.

Windows are laid out by size, all of one size together, so that each size is one batch. That order is this
program's own: a window attends only within itself, so any order gives the same result.
"""

from typing import NamedTuple

import torch

from models.encoder_attention import Runs
from models.families.qwen_vision_config import ROTARY_BASE


class VisionPlan(NamedTuple):
    """order: merged patches (int64 [M], reading order) as the tower computes them; inverse undoes it.

    places: each patch's row and column, int64 [2, patches], as computed; turns: complex64 [patches, 1, 1,
    head_dim / 2], made of them. windows, whole: which rows attend together.
    """

    order: torch.Tensor
    inverse: torch.Tensor
    places: torch.Tensor
    turns: torch.Tensor
    windows: Runs
    whole: Runs


def plan_vision(
    grid: tuple[int, int, int], merge: int, window: int, head_dim: int, device: torch.device
) -> VisionPlan:
    """grid: (frames, rows, columns) in patches, one frame. window: side in merged patches, 0 for none."""
    _, rows, columns = grid
    reading = torch.arange(rows // merge * (columns // merge)).view(rows // merge, columns // merge)
    windows = list(_windows_by_size(reading, window)) if window else [reading.view(1, -1)]
    order = torch.cat([group.flatten() for group in windows])
    places = _places(rows, columns, merge)[order].flatten(0, 1).T.contiguous()
    angles = (places.T[..., None] * vision_frequencies(head_dim)).flatten(1)[:, None, None]
    return VisionPlan(
        order=order.to(device),
        inverse=order.argsort().to(device),
        places=places.to(device),
        turns=torch.polar(torch.ones_like(angles), angles).to(device),
        windows=[(len(group), group.shape[1] * merge**2) for group in windows],
        whole=[(1, rows * columns)],
    )


def _windows_by_size(reading: torch.Tensor, side: int) -> list[torch.Tensor]:
    """Cut [rows, columns] into windows of at most side x side: [number, merged patches] for each size."""
    groups = []
    for band in _whole_and_rest(reading, side):
        for block in _whole_and_rest(band.T, side):
            height, width = min(side, block.shape[1]), min(side, block.shape[0])
            cut = block.T.unflatten(1, (-1, width)).unflatten(0, (-1, height))
            groups.append(cut.transpose(1, 2).reshape(-1, height * width))
    return groups


def _whole_and_rest(rows: torch.Tensor, side: int) -> list[torch.Tensor]:
    """Split along the first axis where whole windows end; empty parts are left out."""
    whole = len(rows) // side * side
    return [part for part in (rows[:whole], rows[whole:]) if len(part)]


def vision_frequencies(head_dim: int) -> torch.Tensor:
    """What a patch's row is multiplied with to get angles, and its column too: float32 [head_dim / 4]."""
    return 1.0 / ROTARY_BASE ** (torch.arange(0, head_dim // 2, 2, dtype=torch.float32) / (head_dim // 2))


def _places(rows: int, columns: int, merge: int) -> torch.Tensor:
    """Row and column of each patch, int64 [merged patches, merge², 2], in reading order."""
    at = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"), dim=-1)
    return at.view(rows // merge, merge, columns // merge, merge, 2).transpose(1, 2).reshape(-1, merge**2, 2)
