"""Sound as Whisper-shaped encoders take it: log-mel frames, in numpy.

Equal, within 1e-5, to transformers' `WhisperFeatureExtractor`. Knows nothing of tokens, chunks or limits.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

_MAX_FREQUENCY_HZ = 8000.0
_POWER_FLOOR = 1e-10
_DYNAMIC_RANGE = 8.0


@dataclass(frozen=True)
class LogMel:
    """num_mels: rows of the result. n_fft: samples in a window. hop_length: samples between two frames.

    chunk_length: seconds that the encoder behind takes at once.
    """

    num_mels: int = 80
    n_fft: int = 400
    hop_length: int = 160
    chunk_length: int = 30
    sampling_rate: int = 16000

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "LogMel":
        """config: the content of a feature extractor's preprocessor_config.json."""
        default = cls()
        return cls(
            num_mels=int(config.get("feature_size", default.num_mels)),
            n_fft=int(config.get("n_fft", default.n_fft)),
            hop_length=int(config.get("hop_length", default.hop_length)),
            chunk_length=int(config.get("chunk_length", default.chunk_length)),
            sampling_rate=int(config.get("sampling_rate", default.sampling_rate)),
        )

    def features(self, samples: np.ndarray, pad_to: int | None = None) -> np.ndarray:
        """samples float32 [n] -> float32 [num_mels, max(n, pad_to) // hop_length].

        pad_to: samples, to which silence is appended first. Frames are floored relative to the loudest.
        The transform runs in float64, which costs no more and keeps the faint bands exact.
        """
        samples = np.asarray(samples, dtype=np.float32)
        if pad_to is not None and pad_to > len(samples):
            samples = np.pad(samples, (0, pad_to - len(samples)))
        edge = self.n_fft // 2
        padded = np.pad(samples, (edge, edge), mode="reflect")
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.n_fft)[:: self.hop_length]
        num_frames = len(samples) // self.hop_length
        spectrum = np.fft.rfft(windows[:num_frames] * self._window)
        power = spectrum.real**2 + spectrum.imag**2  # [frames, n_fft / 2 + 1]
        mel = self._filters @ power.astype(np.float32).T
        log = np.log10(np.maximum(mel, _POWER_FLOOR))
        log = np.maximum(log, log.max() - _DYNAMIC_RANGE)
        return ((log + 4.0) / 4.0).astype(np.float32, copy=False)

    @cached_property
    def _window(self) -> np.ndarray:
        """The periodic Hann window, float64 [n_fft]."""
        phase = 2.0 * np.pi * np.arange(self.n_fft) / self.n_fft
        return 0.5 - 0.5 * np.cos(phase)

    @cached_property
    def _filters(self) -> np.ndarray:
        """Triangles evenly spaced on Slaney's mel scale, of equal area: float32 [mels, n_fft / 2 + 1]."""
        bins = np.linspace(0, self.sampling_rate // 2, 1 + self.n_fft // 2)
        corners = _mel_to_hz(np.linspace(0.0, _hz_to_mel(_MAX_FREQUENCY_HZ), self.num_mels + 2))
        left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
        rising, falling = (bins - left) / (centre - left), (right - bins) / (right - centre)
        triangles = np.maximum(0.0, np.minimum(rising, falling))
        return (triangles * (2.0 / (right - left))).astype(np.float32)


# Slaney's scale (Auditory Toolbox, 1998): linear to 1 kHz at 15 mel, then 27 mel for each factor of 6.4.
_LINEAR_END_HZ, _LINEAR_END_MEL = 1000.0, 15.0
_MEL_PER_LOG = 27.0 / np.log(6.4)


def _hz_to_mel(hz: float) -> float:
    if hz < _LINEAR_END_HZ:
        return hz * _LINEAR_END_MEL / _LINEAR_END_HZ
    return _LINEAR_END_MEL + np.log(hz / _LINEAR_END_HZ) * _MEL_PER_LOG


def _mel_to_hz(mel: np.ndarray) -> np.ndarray:
    linear = mel * _LINEAR_END_HZ / _LINEAR_END_MEL
    return np.where(
        mel < _LINEAR_END_MEL,
        linear,
        _LINEAR_END_HZ * np.exp((mel - _LINEAR_END_MEL) / _MEL_PER_LOG),
    )
