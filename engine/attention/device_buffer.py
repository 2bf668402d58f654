"""Memory on a device that takes a step's plan in a single copy."""

from collections.abc import Sequence

import numpy as np
import torch

ALIGNMENT = 4
"""int32 numbers: every array begins at a multiple of 16 bytes, for which kernels have their fastest loads."""


class DeviceBuffer:
    """Its memory stays where it is until a step needs more than any before."""

    def __init__(self, device: torch.device) -> None:
        self._space = torch.empty(0, dtype=torch.int32, device=device)

    def upload(self, arrays: Sequence[np.ndarray]) -> list[torch.Tensor]:
        """int32 arrays as views of the buffer, of the same shapes; valid until the next upload."""
        *starts, size = _starts([array.size for array in arrays])
        if self._space.numel() < size:
            self._space = self._space.new_empty(2 * size)
        _copy(self._space, starts, arrays)
        return [
            self._space[start : start + array.size].view(array.shape)
            for start, array in zip(starts, arrays, strict=True)
        ]


class FixedBuffer:
    """Its arrays have places of their own, which never move: what a recorded step reads.

    shapes: of each place; the first axis is the most that an array may have there. Zeros at first.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], device: torch.device) -> None:
        self._sizes = [int(np.prod(shape)) for shape in shapes]
        *self._starts, size = _starts(self._sizes)
        self._space = torch.zeros(size, dtype=torch.int32, device=device)
        self.places = [
            self._space[start : start + size].view(shape)
            for start, size, shape in zip(self._starts, self._sizes, shapes, strict=True)
        ]

    def upload(self, arrays: Sequence[np.ndarray]) -> bool:
        """int32 arrays, each to the beginning of its place; what lies behind it there is not defined. False,
        and nothing is copied, if one is too large."""
        if any(array.size > size for array, size in zip(arrays, self._sizes, strict=True)):
            return False
        _copy(self._space, self._starts, arrays)
        return True


def _starts(sizes: Sequence[int]) -> list[int]:
    """Where arrays of these sizes begin, and where the last one ends."""
    return np.cumsum([0, *(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)]).tolist()


def _copy(space: torch.Tensor, starts: Sequence[int], arrays: Sequence[np.ndarray]) -> None:
    """Doesn't wait for the device: the copy queues behind whatever still reads the last plan, and the pinned
    memory that it reads goes back to torch's allocator, which gives it out again only after the copy."""
    size = starts[-1] + arrays[-1].size
    host = torch.empty(size, dtype=torch.int32, pin_memory=space.is_cuda)
    numbers = host.numpy()
    for start, array in zip(starts, arrays, strict=True):
        numbers[start : start + array.size] = array.reshape(-1)
    space[:size].copy_(host, non_blocking=True)
