"""Muon for matrices, AdamW for the rest, one learning-rate curve over both."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tools.demo_model.workers import RANK, WORKERS, summed


def orthogonalised(update: Tensor) -> Tensor:
    """The nearest semi-orthogonal matrix, by five Newton-Schulz steps (Jordan et al., 2024, Muon)."""
    x = update.bfloat16()
    x = x / (x.norm() + 1e-7)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.775 * square + 2.0315 * square @ square) @ x
    return (x.T if tall else x).float()


class Muon(torch.optim.Optimizer):
    """Each worker orthogonalises every so-manieth matrix, for all of them."""

    def __init__(self, groups: list[dict], lr: float, momentum: float = 0.95, decay: float = 0.01) -> None:
        super().__init__(groups, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self, closure=None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        moving = [(g, p) for g in self.param_groups for p in g["params"] if p.grad is not None]
        updates = [torch.zeros_like(p) for _, p in moving]
        for i, ((group, parameter), update) in enumerate(zip(moving, updates, strict=True)):
            mean = self.state[parameter].setdefault("mean", torch.zeros_like(parameter))
            mean.lerp_(parameter.grad, 1 - group["momentum"])
            if i % WORKERS == RANK:
                nesterov = parameter.grad.lerp(mean, group["momentum"])
                update.copy_(orthogonalised(nesterov.flatten(1)).view_as(update))
        for (group, parameter), update in zip(moving, summed(updates), strict=True):
            rows, columns = update.flatten(1).shape
            parameter.mul_(1 - group["lr"] * group["decay"])
            parameter.add_(update, alpha=-group["lr"] * max(1, rows / columns) ** 0.5)


class Share(NamedTuple):
    """A module, its share of the learning rates, and whether its matrices are Muon's (else AdamW's)."""

    module: nn.Module
    rate: float
    muon: bool = True


class Optimiser:
    """Both optimisers under one schedule: `step(progress)` with progress from 0 to 1."""

    def __init__(self, shares: Iterable[Share], muon_lr: float, adam_lr: float) -> None:
        matrices, others = [], []
        for module, rate, muon in shares:
            for name, parameter in module.named_parameters():
                is_table = any(part in name for part in ("embed", "lm_head", "head.", "conv"))
                by_muon = muon and parameter.ndim >= 2 and not is_table
                lr = (muon_lr if by_muon else adam_lr) * rate
                (matrices if by_muon else others).append({"params": [parameter], "lr": lr, "peak": lr})
        self.parts = (
            Muon(matrices, muon_lr),
            torch.optim.AdamW(others, adam_lr, (0.9, 0.98), weight_decay=0.0, fused=True),
        )

    def step(self, progress: float) -> None:
        """One step of both, at this point's rate: a short rise, then a half cosine down to about 1 %."""
        curve = min(1.0, progress / 0.02 + 0.02) * (0.505 + 0.49 * math.cos(math.pi * progress))
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = group["peak"] * curve
            part.step()
            part.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict]:
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, states: list[dict]) -> None:
        for part, state in zip(self.parts, states, strict=True):
            part.load_state_dict(state)
