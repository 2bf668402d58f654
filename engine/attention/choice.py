"""Which back end serves a model on a device."""

import logging
from collections.abc import Sequence

import torch

from engine.attention.base import AttentionBackend
from engine.attention.native import NativeBackend
from engine.attention.reference import ReferenceBackend
from engine.attention.sdpa import SdpaBackend
from engine.attention.self_check import check_agreement
from engine.native.build import NativeUnavailable
from engine.native.library import Library
from models.interface import AttentionSpec

logger = logging.getLogger(__name__)

NAMES = ("auto", "native", "triton", "sdpa", "reference")

_Pages = Sequence[torch.Tensor]


def choose_backend(
    wish: str, spec: AttentionSpec, keys: _Pages, values: _Pages, num_threads: int
) -> AttentionBackend:
    """The back end called `wish`; for "auto" native on a CPU that can have it, else sdpa (the log says why),
    and on a GPU what `settled` says.

    keys, values: for each layer [num_blocks, 16, kv_heads, head_dim]. ValueError for an unknown name, or
    where the one that was named can't serve this model on this machine.
    """
    if wish not in NAMES:
        raise ValueError(f"attention_backend must be one of {', '.join(NAMES)}, not {wish!r}")
    wish = settled(wish, spec, keys[0].dtype, keys[0].device)
    if wish == "reference":
        return ReferenceBackend(spec, keys, values)
    if wish in ("native", "auto"):
        try:
            return NativeBackend(spec, keys, values, Library(num_threads))
        except (NativeUnavailable, ValueError) as error:
            if wish == "native":
                raise ValueError(f"no native back end: {error}") from error
            logger.info("attention back end: sdpa, not native, because %s", error)
    if wish == "triton":
        return _triton(spec, keys, values)
    return SdpaBackend(spec, keys, values)


def _triton(spec: AttentionSpec, keys: _Pages, values: _Pages) -> AttentionBackend:
    try:
        # Here, since the package `triton` comes with torch for GPUs only.
        from engine.attention.triton_backend import TritonBackend
    except ImportError as error:
        raise ValueError(f"no triton back end: {error}") from error
    return TritonBackend(spec, keys, values)


def settled(wish: str, spec: AttentionSpec, dtype: torch.dtype, device: torch.device) -> str:
    """`wish`, but for "auto" on a GPU what will serve there: told before there are pages, which get what it
    leaves."""
    return best_on_gpu(spec, dtype, device) if wish == "auto" and device.type == "cuda" else wish


def best_on_gpu(spec: AttentionSpec, dtype: torch.dtype, device: torch.device) -> str:
    """Triton, unless it doesn't give what sdpa gives here and now: then sdpa, and a line in the log."""
    try:
        check_agreement(_triton, SdpaBackend, spec, dtype, device)
    except Exception as error:
        # A compiler, a driver and a device speak here: whatever they raise, sdpa serves.
        logger.warning("attention back end: sdpa, not triton, because %s: %s", type(error).__name__, error)
        return "sdpa"
    return "triton"
