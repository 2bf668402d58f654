"""The layers of Qwen's vision towers: their weights as published, and packed for the portable path."""

from typing import NamedTuple

import torch
import torch.nn.functional as F

from models.encoder_attention import Runs, attend_in_runs
from models.families.qwen_vision_config import VisionConfig
from models.linear import Linear, Map, packed, stack, take_linear
from models.weights import Weights

EPS = 1e-6


class Norm(NamedTuple):
    """A layer norm, or without a bias a root-mean-square norm."""

    weight: torch.Tensor
    bias: torch.Tensor | None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.bias is None:
            return F.rms_norm(x, self.weight.shape, self.weight, EPS)
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, EPS)


class BlockWeights(NamedTuple):
    """One layer as published. qkv: rows of query, key and value in this order. gate: None in a plain MLP."""

    norm1: Norm
    qkv: Linear
    proj: Linear
    norm2: Norm
    gate: Linear | None
    up: Linear
    down: Linear


class VisionBlock(NamedTuple):
    """One layer. qkv: queries and keys with the pairs that turn together side by side."""

    num_heads: int
    norm1: Map
    qkv: Map
    proj: Map
    norm2: Map
    mlp: Map

    @classmethod
    def of(cls, config: VisionConfig, weights: BlockWeights) -> "VisionBlock":
        return cls(
            config.num_heads,
            norm1=weights.norm1,
            qkv=packed(_with_pairs_together(config, weights.qkv)),
            proj=packed(weights.proj),
            norm2=weights.norm2,
            mlp=_mlp(config, weights),
        )

    def __call__(self, hidden: torch.Tensor, turns: torch.Tensor, runs: Runs) -> torch.Tensor:
        """[patches, width] -> the same. turns: as in `VisionPlan`; runs: who attends to whom."""
        hidden = self._attended(hidden, turns, runs)
        return self.mlp(self.norm2(hidden)).add_(hidden)

    def _attended(self, hidden: torch.Tensor, turns: torch.Tensor, runs: Runs) -> torch.Tensor:
        """By itself, so that queries, keys and values are gone before the MLP: of the largest pictures they
        take a gigabyte."""
        qkv = self.qkv(self.norm1(hidden)).unflatten(-1, (3, self.num_heads, -1))
        q, k = _turned(qkv[:, :2], turns)
        attended = attend_in_runs(q, k, qkv[:, 2].transpose(0, 1), runs)
        return self.proj(attended).add_(hidden)


def take_norm(config: VisionConfig, weights: Weights, name: str, width: int) -> Norm:
    shape = (width,)
    bias = None if config.gated else weights.take(f"{name}.bias", shape=shape)
    return Norm(weights.take(f"{name}.weight", shape=shape), bias)


def take_block(config: VisionConfig, weights: Weights) -> BlockWeights:
    """weights: as seen below the layer's prefix."""
    width, inner = config.width, config.mlp_width
    if config.split_qkv:
        qkv = stack(*(take_linear(weights, f"attn.{name}", width, width) for name in "qkv"))
    else:
        qkv = take_linear(weights, "attn.qkv", width, 3 * width)
    gated, names = config.gated, config.names
    up, down = ("up_proj", "down_proj") if gated else (names.mlp_in, names.mlp_out)
    return BlockWeights(
        norm1=take_norm(config, weights, "norm1", width),
        qkv=qkv,
        proj=take_linear(weights, "attn.proj", width, width),
        norm2=take_norm(config, weights, "norm2", width),
        gate=take_linear(weights, "mlp.gate_proj", width, inner) if gated else None,
        up=take_linear(weights, f"mlp.{up}", width, inner),
        down=take_linear(weights, f"mlp.{down}", inner, width),
    )


def _mlp(config: VisionConfig, weights: BlockWeights) -> Map:
    down = packed(weights.down)
    if weights.gate is None:
        first = packed(weights.up, config.activation)
        return lambda x: down(first(x))
    gate, up = packed(weights.gate, config.activation), packed(weights.up)
    return lambda x: down(gate(x).mul_(up(x)))


def _with_pairs_together(config: VisionConfig, qkv: Linear) -> Linear:
    """Queries and keys turn in pairs (i, i + dim / 2): with the two side by side a pair is a complex number.

    Both are reordered alike, so their products stay as they were."""
    rows = torch.arange(3 * config.width).view(3, config.num_heads, 2, -1)
    paired = rows[:2].transpose(-2, -1).flatten()
    order = torch.cat((paired, rows[2].flatten())).to(qkv.weight.device)
    return Linear(qkv.weight[order], None if qkv.bias is None else qkv.bias[order])


def _turned(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Rotate neighbouring pairs of x [rows, 2, heads, dim] by turns, complex64 [rows, 1, 1, dim / 2].

    One of the two after the other, since they take room in float32. Returns [2, heads, rows, dim], dtype of
    x.
    """
    rows, two, heads, dim = x.shape
    out = x.new_empty(two, heads, rows, dim)
    for part, place in zip(x.unbind(1), out.unbind(), strict=True):
        place.copy_(_turned_in_float32(part, turns[:, 0]).transpose(0, 1))
    return out


def _turned_in_float32(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """[rows, heads, dim] -> the same. turns: complex64 [rows, 1, dim / 2]. Float32 x is overwritten."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    pairs *= turns
    return torch.view_as_real(pairs).flatten(-2)
