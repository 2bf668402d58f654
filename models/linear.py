"""Linear maps of encoders: weights as published, and packed as a CPU's matrix products read them."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F

from models.activations import ACTIVATIONS
from models.weights import Weights

Map = Callable[[torch.Tensor], torch.Tensor]
"""[..., in] -> [..., out]"""

_ONEDNN = {
    None: ("none", ""),
    "gelu": ("gelu", "none"),
    "gelu_pytorch_tanh": ("gelu", "tanh"),
    "silu": ("swish", ""),
}
"""Name and algorithm of what its products can apply by themselves."""


class Linear(NamedTuple):
    """weight [out, in], bias [out] or None."""

    weight: torch.Tensor
    bias: torch.Tensor | None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


def take_linear(weights: Weights, name: str, inputs: int, outputs: int, bias: bool = True) -> Linear:
    weight = weights.take(f"{name}.weight", shape=(outputs, inputs))
    return Linear(weight, weights.take(f"{name}.bias", shape=(outputs,)) if bias else None)


def stack(*parts: Linear) -> Linear:
    """Several maps of the same input as one, their outputs one after another."""
    biases = [part.bias for part in parts if part.bias is not None]
    return Linear(torch.cat([part.weight for part in parts]), torch.cat(biases))


def packed(linear: Linear, activation: str | None = None) -> Map:
    """The map followed by an activation of ACTIVATIONS; in bfloat16 on a CPU one product of oneDNN, weights
    packed once.

    There most activations see sums before they are rounded; everywhere else they are computed after.
    """
    weight, bias = linear
    on_cpu = weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and _has_onednn()
    if activation is not None and not (on_cpu and activation in _ONEDNN):
        act, plain = ACTIVATIONS[activation], packed(linear)
        return lambda x: act(plain(x))
    if not on_cpu:
        return linear
    ops = torch.ops.mkldnn
    tiles = ops._reorder_linear_weight(weight.contiguous())
    name, algorithm = _ONEDNN[activation]
    return lambda x: ops._linear_pointwise(x, tiles, bias, name, [], algorithm)


def _has_onednn() -> bool:
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()
