"""What media of one request, and of all requests together, may cost. Checked before decoding wherever
possible."""

import os
from dataclasses import dataclass, field

from models.processing.base import MediaError

MIN_WORKERS, MAX_WORKERS = 2, 8


def _num_workers() -> int:
    """By the cores that this process may use, half of which are left to the engine and to HTTP."""
    num_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(max(num_cores // 2, MIN_WORKERS), MAX_WORKERS)


@dataclass(frozen=True)
class MediaLimits:
    """Per item, per request, and for the whole process. All sizes are of hostile input until proven
    otherwise.

    The process holds at most `max_decoded_bytes` of decoded pixels and samples, decoders' working copies
    included (an item that needs more alone is alone), `max_named_bytes` of encoded media that requests gave
    a name to, plus for each admitted request `max_request_encoded_bytes`.
    """

    max_encoded_bytes: int = 32 << 20
    max_request_encoded_bytes: int = 64 << 20
    max_image_pixels: int = 36_000_000
    max_request_pixels: int = 144_000_000
    min_audio_seconds: float = 0.05
    max_audio_seconds: float = 600.0
    max_request_audio_seconds: float = 1800.0
    max_audio_channels: int = 8
    min_sampling_rate: int = 4_000
    max_sampling_rate: int = 384_000
    max_decoded_bytes: int = 1 << 30
    decode_timeout_s: float = 30.0
    max_wait_s: float = 60.0
    """For a worker, and for room for what it decodes; longer gets 503."""
    max_layouts: int = 65_536
    max_named_bytes: int = 256 << 20
    max_names: int = 65_536
    num_workers: int = field(default_factory=_num_workers)
    """Threads, and processes that decode for them."""


class RequestBudget:
    """What one request has used up. Charged alike for known and new media, so that a cache never decides a
    refusal."""

    def __init__(self, limits: MediaLimits) -> None:
        self._limits = limits
        self._encoded_bytes = 0
        self._used = {"image": 0.0, "audio": 0.0}

    def charge_encoded(self, num_bytes: int) -> None:
        self._encoded_bytes += num_bytes
        if self._encoded_bytes > self._limits.max_request_encoded_bytes:
            limit = self._limits.max_request_encoded_bytes
            raise MediaError(f"The request's media exceed {limit} bytes in all.", "image_file_too_large")

    def charge_decoded(self, kind: str, amount: float) -> None:
        """amount: pixels of a picture, seconds of a sound."""
        self._used[kind] += amount
        if kind == "image" and self._used[kind] > self._limits.max_request_pixels:
            limit = self._limits.max_request_pixels
            raise MediaError(f"The request's images exceed {limit} pixels in all.", "image_too_large")
        if kind == "audio" and self._used[kind] > self._limits.max_request_audio_seconds:
            limit = self._limits.max_request_audio_seconds
            raise MediaError(f"The request's audio exceeds {limit:g} seconds in all.", "audio_too_long")
