"""Activation functions by transformers' names for them."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": F.gelu,
    "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh"),
    "quick_gelu": lambda x: torch.sigmoid(1.702 * x).mul_(x),
    "relu": F.relu,
    "silu": F.silu,
}
