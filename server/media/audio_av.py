"""M4A and WebM sound, decoded by PyAV where it is installed (`pip install intarsia[av]`)."""

import io
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy as np

from models.processing.base import MediaError


class AvFile:
    """The first sound track of a container. kind: "M4A" or "WEBM"."""

    def __init__(self, encoded: bytes, kind: str) -> None:
        try:
            import av
        except ImportError:
            message = "M4A and WebM audio are not supported here; send WAV, FLAC, Ogg or MP3."
            raise MediaError(message, "unsupported_audio_format") from None
        self._resampler = av.AudioResampler(format="fltp")
        # Naming the demuxer keeps a hostile file from choosing one that opens other files.
        demuxer = {"M4A": "mov", "WEBM": "matroska"}[kind]
        self._container: Any = av.open(io.BytesIO(encoded), format=demuxer, metadata_errors="ignore")
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
