"""Several processes on one model: each has batches of its own, and gradients are averaged before every step.

Begun by `torchrun --nproc-per-node N -m tools.demo_model.train …`; alone, everything here does nothing.
"""

import os

import torch
from torch import Tensor, distributed, nn

RANK, WORKERS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def join() -> None:
    if WORKERS > 1:
        distributed.init_process_group("gloo")


def summed(tensors: list[Tensor]) -> list[Tensor]:
    """Every tensor becomes its sum over the workers, in one exchange."""
    if WORKERS == 1:
        return tensors
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    distributed.all_reduce(flat)
    parts = flat.split([tensor.numel() for tensor in tensors])
    return [part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)]


def averaged(parameters: list[nn.Parameter], progress: float) -> float:
    """Every gradient becomes the mean over the workers; returns their mean progress, so all end at once."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    *sums, total = summed([*gradients, torch.tensor([progress])])
    for gradient, mean in zip(gradients, sums, strict=True):
        gradient.copy_(mean / WORKERS)
    return total.item() / WORKERS
