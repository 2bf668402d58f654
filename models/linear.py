"""Linear maps of encoders: weights as published, and packed as a CPU's matrix products read them."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F

from models.weights import Weights

Map = Callable[[torch.Tensor], torch.Tensor]
"""[..., in] -> [..., out]"""
Activation = Literal["none", "gelu", "silu"]

_ACTIVATIONS: dict[Activation, Map] = {"none": lambda x: x, "gelu": F.gelu, "silu": F.silu}
_ONEDNN_NAMES: dict[Activation, str] = {"none": "none", "gelu": "gelu", "silu": "swish"}


class Linear(NamedTuple):
    """weight [out, in], bias [out] or None."""

    weight: torch.Tensor
    bias: torch.Tensor | None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


def take_linear(weights: Weights, name: str, inputs: int, outputs: int) -> Linear:
    weight = weights.take(f"{name}.weight", shape=(outputs, inputs))
    return Linear(weight, weights.take(f"{name}.bias", shape=(outputs,)))


def stack(*parts: Linear) -> Linear:
    """Several maps of the same input as one, their outputs one after another."""
    biases = [part.bias for part in parts if part.bias is not None]
    return Linear(torch.cat([part.weight for part in parts]), torch.cat(biases))


def packed(linear: Linear, activation: Activation = "none") -> Map:
    """The map followed by the activation; in bfloat16 on a CPU one product of oneDNN, its weight packed once.

    There the activation sees sums before they are rounded; everywhere else it is computed after.
    """
    weight, bias = linear
    if weight.device.type != "cpu" or weight.dtype != torch.bfloat16 or not _has_onednn():
        act = _ACTIVATIONS[activation]
        return linear if activation == "none" else lambda x: act(linear(x))
    ops = torch.ops.mkldnn
    tiles = ops._reorder_linear_weight(weight.contiguous())
    name, algorithm = _ONEDNN_NAMES[activation], "none" if activation == "gelu" else ""
    return lambda x: ops._linear_pointwise(x, tiles, bias, name, [], algorithm)


def _has_onednn() -> bool:
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()
