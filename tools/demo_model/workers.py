"""Several processes on one model: each has batches of its own, and gradients are averaged before every step.

Begun by `torchrun --nproc-per-node N -m tools.demo_model.train …`; alone, everything here does nothing.
"""

import os

import torch
from torch import distributed, nn

RANK, WORKERS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def join() -> None:
    if WORKERS > 1:
        distributed.init_process_group("gloo")


def averaged(parameters: list[nn.Parameter], progress: float) -> float:
    """Every gradient becomes the mean over the workers; returns their mean progress, so all end at once."""
    if WORKERS == 1:
        return progress
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([*(g.flatten() for g in gradients), torch.tensor([progress])])
    distributed.all_reduce(flat)
    flat /= WORKERS
    at = 0
    for gradient in gradients:
        gradient.copy_(flat[at : at + gradient.numel()].view_as(gradient))
        at += gradient.numel()
    return flat[-1].item()
