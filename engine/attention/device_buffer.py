"""One array on a device that takes a step's plan in a single copy."""

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
        """int32 arrays as views of the buffer, of the same shapes; valid until the next upload.

        Doesn't wait for the device: the copy queues behind whatever still reads the last plan, and the pinned
        memory that it reads goes back to torch's allocator, which gives it out again only after the copy.
        """
        starts = np.cumsum([0, *(-(-array.size // ALIGNMENT) * ALIGNMENT for array in arrays)]).tolist()
        size = starts[-1]
        host = torch.empty(size, dtype=torch.int32, pin_memory=self._space.is_cuda)
        for start, array in zip(starts, arrays, strict=False):
            host.numpy()[start : start + array.size] = array.reshape(-1)
        if self._space.numel() < size:
            self._space = self._space.new_empty(2 * size)
        self._space[:size].copy_(host, non_blocking=True)
        return [
            self._space[start : start + array.size].view(array.shape)
            for start, array in zip(starts, arrays, strict=False)
        ]
