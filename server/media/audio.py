"""Encoded sounds to canonical ones: float32 samples, mono, at the model's rate.

- The format is told from the bytes: WAV, FLAC, Ogg (Vorbis, Opus) and MP3; M4A and WebM with PyAV.
- Length is counted while decoding, which stops at the limit; no header is believed.
- Channels are averaged, then resampled, in that order. Values that are not finite are refused.
- A cut-off WAV, MP3 or Ogg gives what could be decoded of it (of Ogg, whole pages), as players do; too little
  of that is refused. A cut-off FLAC, whose decoder notices, is refused.
"""

import io
from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self

import numpy as np
import soundfile
import soxr

from models.processing.base import MediaError
from server.media.audio_av import AvFile
from server.media.limits import MediaLimits
from server.media.ogg import is_cut_off
from server.media.unreadable import damaged, too_large
from server.media.vorbis import check_vorbis

_TAKEN = "WAV, FLAC, Ogg or MP3"
_CONTAINERS = {"WAV": ("WAV", "WAVEX", "RF64"), "FLAC": ("FLAC",), "OGG": ("OGG",), "MP3": ("MP3", "MPEG")}
_BLOCK_FRAMES = 1 << 16


class SoundFile(Protocol):
    """An opened file. sampling_rate in Hz; blocks are float32 [frames, num_channels]."""

    sampling_rate: int
    num_channels: int

    def blocks(self) -> Iterator[np.ndarray]: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def decode_audio(encoded: bytes, sampling_rate: int, limits: MediaLimits) -> np.ndarray:
    """The canonical sound, float32 [num_samples] at `sampling_rate`. MediaError for what can't or may not be
    decoded."""
    if not encoded:
        raise MediaError("The audio is empty.", "audio_too_short")
    try:
        with _opened(encoded) as source:
            samples = np.concatenate([*_resampled(_mono(source, limits), source, sampling_rate)])
    except MediaError:
        raise
    except MemoryError:  # FFmpeg's too, which may have no large piece of it
        raise too_large("audio") from None
    except Exception:  # decoders raise what they like on hostile input
        raise damaged("audio") from None
    return np.ascontiguousarray(samples, np.float32)


def _resampled(blocks: Iterator[np.ndarray], source: SoundFile, sampling_rate: int) -> Iterator[np.ndarray]:
    """Block by block, so that no more is ever held than the canonical sound."""
    if source.sampling_rate == sampling_rate:
        yield from blocks
        return
    stream: soxr.ResampleStream | None = None
    for block in blocks:
        # Made only now: the first block comes after the rate has passed the limits.
        stream = stream or soxr.ResampleStream(source.sampling_rate, sampling_rate, 1, quality="HQ")
        yield stream.resample_chunk(block)
    if stream is not None:
        yield stream.resample_chunk(np.empty(0, np.float32), last=True)


LOUDEST = 1e10
"""Full scale is 1; whole numbers in floats are below 2.2e9. Of far larger ones a spectrum overflows."""


def _mono(source: SoundFile, limits: MediaLimits) -> Iterator[np.ndarray]:
    """Blocks float32 [frames] at the file's own rate."""
    rate = source.sampling_rate
    if not limits.min_sampling_rate <= rate <= limits.max_sampling_rate:
        allowed = f"{limits.min_sampling_rate} to {limits.max_sampling_rate} Hz"
        raise MediaError(f"The audio's sampling rate is {rate} Hz; {allowed} are taken.", "invalid_audio")
    if not 1 <= source.num_channels <= limits.max_audio_channels:
        found = source.num_channels
        message = f"The audio has {found} channels; at most {limits.max_audio_channels} are taken."
        raise MediaError(message, "invalid_audio")
    num_frames = 0
    for block in source.blocks():
        num_frames += len(block)
        if num_frames > limits.max_audio_seconds * rate:
            raise MediaError(
                f"The audio is longer than {limits.max_audio_seconds:g} seconds.", "audio_too_long"
            )
        mean = block.mean(axis=1, dtype=np.float64).astype(np.float32)
        if not np.abs(block).max(initial=0) <= LOUDEST:  # not a number neither
            message = "The audio holds samples that are not finite numbers, or far too large."
            raise MediaError(message, "invalid_audio")
        yield mean
    if num_frames < limits.min_audio_seconds * rate:
        message = f"The audio is too short: at least {limits.min_audio_seconds:g} seconds are needed."
        raise MediaError(message, "audio_too_short")


class _LibsndfileSound:
    def __init__(self, encoded: bytes, kind: str) -> None:
        self._file = soundfile.SoundFile(io.BytesIO(encoded))
        self._is_cut_off = kind == "OGG" and is_cut_off(encoded)
        self.sampling_rate = self._file.samplerate
        self.num_channels = self._file.channels
        if self._file.format not in _CONTAINERS[kind]:
            self._file.close()
            raise damaged("audio")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def blocks(self) -> Iterator[np.ndarray]:
        is_empty = True
        while len(block := self._file.read(_BLOCK_FRAMES, dtype="float32", always_2d=True)):
            is_empty = False
            yield block
        if is_empty and self._is_cut_off:
            raise damaged("audio")


def _opened(encoded: bytes) -> SoundFile:
    kind = _sniff(encoded)
    if kind == "OGG":
        check_vorbis(encoded)
    return _LibsndfileSound(encoded, kind) if kind in _CONTAINERS else AvFile(encoded, kind)


def _sniff(encoded: bytes) -> str:
    head = encoded[:64]
    if head[:4] in (b"RIFF", b"RIFX", b"RF64") and head[8:12] == b"WAVE":
        return "WAV"
    if head.startswith(b"fLaC"):
        return "FLAC"
    if head.startswith(b"OggS"):
        return "OGG"
    if head.startswith(b"ID3") or (
        len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 in (0xE2, 0xE4, 0xE6)
    ):
        return "MP3"
    if head[4:8] == b"ftyp":
        return "M4A"
    if head.startswith(b"\x1a\x45\xdf\xa3"):
        return "WEBM"
    raise MediaError(f"The data is not audio in a known format; send {_TAKEN}.", "unsupported_audio_format")
