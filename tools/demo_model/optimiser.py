"""Muon for matrices, AdamW for the rest, one learning-rate curve over both."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn


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
    def __init__(self, groups: list[dict], lr: float, momentum: float = 0.95, decay: float = 0.01) -> None:
        super().__init__(groups, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self, closure=None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                mean = state.setdefault("mean", torch.zeros_like(parameter))
                mean.lerp_(parameter.grad, 1 - group["momentum"])
                update = orthogonalised(parameter.grad.lerp(mean, group["momentum"]).flatten(1))
                scale = max(1, update.shape[0] / update.shape[1]) ** 0.5
                parameter.mul_(1 - group["lr"] * group["decay"])
                parameter.add_(update.view_as(parameter), alpha=-group["lr"] * scale)


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
            torch.optim.AdamW(others, adam_lr, (0.9, 0.98), weight_decay=0.0),
        )

    def step(self, progress: float) -> None:
        """One step of both, at this point's rate: a short rise, then a half cosine down to about 1 %."""
        curve = min(1.0, progress / 0.02 + 0.02) * (0.505 + 0.49 * math.cos(math.pi * progress))
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = group["peak"] * curve
            part.step()
            part.zero_grad(set_to_none=True)
