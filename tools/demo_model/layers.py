"""What the three networks share: matrix-product attention (fast under torch.compile on a CPU), rotary
turns, init.
"""

import torch
from torch import Tensor, nn


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """q, k, v: (batch, heads, tokens, head size); bias: (batch, 1, tokens, tokens), 0 or very negative."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias
    return torch.softmax(scores.float(), -1).to(v.dtype) @ v


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(batch, tokens, heads * size) to (batch, heads, tokens, size)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions; cos, sin: (batch, 1, tokens, head size), both halves equal."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class RMSNorm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return (self.weight * wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class GatedMLP(nn.Module):
    def __init__(self, size: int, inner: int, bias: bool) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(size, inner, bias=bias)
        self.up_proj = nn.Linear(size, inner, bias=bias)
        self.down_proj = nn.Linear(inner, size, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


def initialise(module: nn.Module, depth: int) -> None:
    """Fan-in initialisation; matrices that write to the residual stream start smaller the deeper the
    network.
    """
    for name, parameter in module.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif parameter.ndim >= 2 and "embed_tokens" not in name:
            fan_in = parameter[0].numel()
            writes = name.endswith(("o_proj.weight", "down_proj.weight", "attn.proj.weight"))
            nn.init.normal_(parameter, std=fan_in**-0.5 / ((2 * depth) ** 0.5 if writes else 1))
