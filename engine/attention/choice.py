"""Which back end serves a model on a device."""

import logging
from collections.abc import Sequence

import torch

from engine.attention.base import AttentionBackend
from engine.attention.native import NativeBackend
from engine.attention.reference import ReferenceBackend
from engine.attention.sdpa import SdpaBackend
from engine.native.build import NativeUnavailable
from engine.native.library import Library
from models.interface import AttentionSpec

logger = logging.getLogger(__name__)

NAMES = ("auto", "native", "sdpa", "reference")

_Pages = Sequence[torch.Tensor]


def choose_backend(
    wish: str, spec: AttentionSpec, keys: _Pages, values: _Pages, num_threads: int
) -> AttentionBackend:
    """The back end called `wish`; for "auto" native on a CPU that can have it, else sdpa (the log says why).

    keys, values: for each layer [num_blocks, 16, kv_heads, head_dim]. ValueError for an unknown name, or
    where the one that was named can't serve this model on this machine.
    """
    if wish not in NAMES:
        raise ValueError(f"attention_backend must be one of {', '.join(NAMES)}, not {wish!r}")
    if wish == "reference":
        return ReferenceBackend(spec, keys, values)
    if wish == "native" or (wish == "auto" and keys[0].device.type == "cpu"):
        try:
            return NativeBackend(spec, keys, values, Library(num_threads))
        except (NativeUnavailable, ValueError) as error:
            if wish == "native":
                raise ValueError(f"no native back end: {error}") from error
            logger.info("attention back end: sdpa, not native, because %s", error)
    return SdpaBackend(spec, keys, values)
