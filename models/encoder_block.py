"""The block that most encoders are made of: layer norm and attention, layer norm and two maps.

Whisper's, CLIP's and what descends from them differ in names, in the activation, and in who attends to whom.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F

from models.linear import Linear, Map, packed, stack, take_linear
from models.weights import Weights

Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""q, k, v [..., heads, rows, dim] -> [..., rows, heads * dim]"""


class BlockNames(NamedTuple):
    """What a family calls the parts of a block. Projections are `self_attn.q_proj` and so on in all."""

    attention_norm: str
    mlp_norm: str
    up: str
    down: str


WHISPER = BlockNames("self_attn_layer_norm", "final_layer_norm", "fc1", "fc2")
CLIP = BlockNames("layer_norm1", "layer_norm2", "mlp.fc1", "mlp.fc2")


class BlockSizes(NamedTuple):
    """eps: of both norms."""

    width: int
    num_heads: int
    mlp_width: int
    eps: float
    activation: str


class LayerNorm(NamedTuple):
    weight: torch.Tensor
    bias: torch.Tensor
    eps: float

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


def take_norm(weights: Weights, name: str, width: int, eps: float) -> LayerNorm:
    shape = (width,)
    return LayerNorm(
        weights.take(f"{name}.weight", shape=shape), weights.take(f"{name}.bias", shape=shape), eps
    )


class EncoderBlock:
    """weights: as seen below the block's prefix."""

    def __init__(self, sizes: BlockSizes, names: BlockNames, weights: Weights) -> None:
        width, inner = sizes.width, sizes.mlp_width
        self.num_heads = sizes.num_heads
        self.attention_norm = take_norm(weights, names.attention_norm, width, sizes.eps)
        self.qkv = _take_qkv(weights.prefixed("self_attn."), width)
        self.out = packed(take_linear(weights, "self_attn.out_proj", width, width))
        self.mlp_norm = take_norm(weights, names.mlp_norm, width, sizes.eps)
        self.up = packed(take_linear(weights, names.up, width, inner), sizes.activation)
        self.down = packed(take_linear(weights, names.down, inner, width))

    def __call__(self, x: torch.Tensor, attention: Attention) -> torch.Tensor:
        """[..., rows, width] -> the same."""
        x = self._attended(x, attention)
        return self.down(self.up(self.mlp_norm(x))).add_(x)

    def _attended(self, x: torch.Tensor, attention: Attention) -> torch.Tensor:
        """By itself, so that queries, keys and values are gone before the two maps."""
        qkv = self.qkv(self.attention_norm(x)).unflatten(-1, (3, self.num_heads, -1))
        q, k, v = (part.transpose(-2, -3) for part in qkv.unbind(-3))
        return self.out(attention(q, k, v)).add_(x)


def _take_qkv(weights: Weights, width: int) -> Map:
    """Rows of query, key and value in this order. Whisper's keys have no bias."""
    query, value = (take_linear(weights, f"{name}_proj", width, width) for name in "qv")
    if weights.has("k_proj.bias"):
        key = take_linear(weights, "k_proj", width, width)
    else:
        weight = weights.take("k_proj.weight", shape=(width, width))
        key = Linear(weight, weight.new_zeros(width))
    return packed(stack(query, key, value))
