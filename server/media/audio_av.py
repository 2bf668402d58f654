"""M4A and WebM sound, decoded by PyAV where it is installed (`pip install intarsia[av]`).

A container's tables can claim hundreds of millions of samples in a few bytes, and FFmpeg makes room for them
all. So no piece of its memory may be large, and there may only be a few tracks to have such tables.
"""

import ctypes
import io
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import TracebackType
from typing import Any

import numpy as np

from models.processing.base import MediaError

MAX_PIECE_BYTES = 16 << 20
"""Of FFmpeg's memory: an index of 600,000 samples, which are more than three hours of AAC."""
MAX_TRACKS = 8


@cache
def _bounded_av() -> Any:
    """PyAV. ImportError where there is none, or none that can be bounded."""
    import av

    try:
        # FFmpeg's own function, for the whole process; PyAV has no name for it.
        ctypes.CDLL(import_module("av._core").__file__).av_max_alloc(ctypes.c_size_t(MAX_PIECE_BYTES))
    except (AttributeError, OSError) as error:
        raise ImportError("FFmpeg's memory can't be bounded") from error
    return av


class AvFile:
    """The first sound track of a container. kind: "M4A" or "WEBM"."""

    def __init__(self, encoded: bytes, kind: str) -> None:
        try:
            av = _bounded_av()
        except ImportError:
            message = "M4A and WebM audio are not supported here; send WAV, FLAC, Ogg or MP3."
            raise MediaError(message, "unsupported_audio_format") from None
        self._resampler = av.AudioResampler(format="fltp")
        # Naming the demuxer keeps a hostile file from choosing one that opens other files.
        demuxer = {"M4A": "mov", "WEBM": "matroska"}[kind]
        options = {"max_streams": str(MAX_TRACKS)}
        self._container: Any = av.open(
            io.BytesIO(encoded), format=demuxer, container_options=options, metadata_errors="ignore"
        )
        if not self._container.streams.audio:
            self._container.close()
            raise MediaError("The file has no sound track.", "invalid_audio")
        self._stream = self._container.streams.audio[0]
        self.sampling_rate = int(self._stream.codec_context.sample_rate)
        self.num_channels = int(self._stream.codec_context.channels)

    def __enter__(self) -> "AvFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._container.close()

    def blocks(self) -> Iterator[np.ndarray]:
        """float32 [frames, channels]."""
        for frame in self._container.decode(self._stream):
            for planar in self._resampler.resample(frame):
                yield planar.to_ndarray().T
        for planar in self._resampler.resample(None):
            yield planar.to_ndarray().T
