"""Where training runs: on a GPU if there is one. Data are always made on the CPU and moved by the batch."""

import torch
from torch import Tensor

from engine.allocator import keep_freed_memory

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def begin(threads: int) -> None:
    """New tensors and modules go to the device from here on; data loading asks for the CPU by name."""
    keep_freed_memory()
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("high")
    torch.set_default_device(DEVICE)


def moved(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(tensor.to(DEVICE) for tensor in tensors)


def half_precision() -> torch.autocast:
    return torch.autocast(DEVICE.type, torch.bfloat16)
