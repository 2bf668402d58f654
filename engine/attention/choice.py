"""Which back end serves a model on a device."""

from collections.abc import Callable, Sequence

import torch

from engine.attention.base import AttentionBackend
from engine.attention.reference import ReferenceBackend
from engine.attention.sdpa import SdpaBackend
from models.interface import AttentionSpec

_MADE_BY: dict[
    str, Callable[[AttentionSpec, Sequence[torch.Tensor], Sequence[torch.Tensor]], AttentionBackend]
] = {
    "reference": ReferenceBackend,
    "sdpa": SdpaBackend,
}


def choose_backend(
    wish: str, spec: AttentionSpec, keys: Sequence[torch.Tensor], values: Sequence[torch.Tensor]
) -> AttentionBackend:
    """The back end called `wish`, or the best one here for "auto". ValueError for an unknown name.

    keys, values: for each layer [num_blocks, 16, kv_heads, head_dim].
    """
    name = "sdpa" if wish == "auto" else wish
    if name not in _MADE_BY:
        raise ValueError(f"attention_backend must be one of auto, {', '.join(_MADE_BY)}, not {wish!r}")
    return _MADE_BY[name](spec, keys, values)
