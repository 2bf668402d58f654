"""Sounds as Qwen's audio towers take them: log-mel frames, a token for every four, up to the extractor's end.

Knows nothing of token ids.
"""

from typing import Any

import numpy as np

from models.checkpoint import Checkpoint
from models.processing.audio_mel import LogMel
from models.processing.base import MediaError, MediaLayout


class MelSounds:
    """Length rule and frames of one checkpoint. settings: as in `PatchedImages`."""

    def __init__(self, config: dict[str, Any]) -> None:
        """config: the feature extractor's settings."""
        self._mel = LogMel.from_config(config)
        self.sampling_rate = self._mel.sampling_rate
        self._max_samples = self._mel.chunk_length * self.sampling_rate
        self.max_frames = self._max_samples // self._mel.hop_length
        self.settings = {name: value for name, value in config.items() if not isinstance(value, list)}

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "MelSounds":
        """From where they are published: nested in the processor's file, or in their own."""
        nested = (checkpoint.read_json("processor_config.json") or {}).get("feature_extractor")
        return cls(nested or checkpoint.read_json("preprocessor_config.json") or {})

    def layout(self, num_samples: int) -> MediaLayout:
        """MediaError below one token, or past what the extractor takes."""
        if num_samples > self._max_samples:
            seconds = self._max_samples // self.sampling_rate
            raise MediaError(f"The audio is longer than this model's {seconds} seconds.", "audio_too_long")
        num_tokens = (self.num_frames(num_samples) + 1) // 4
        if num_tokens < 1:
            raise MediaError("The audio is too short for this model.", "audio_too_short")
        return MediaLayout(num_tokens)

    def num_frames(self, num_samples: int) -> int:
        """How many frames hold sound."""
        return min(-(-num_samples // self._mel.hop_length), self.max_frames)

    def frames(self, samples: np.ndarray, count: int) -> np.ndarray:
        """The first `count` frames, float32 [mel bins, count], at most `max_frames`; silence after the sound.

        The extractor pads with silence to its full length; no frame sees more than two hops of it."""
        padded = min((count + 2) * self._mel.hop_length, self._max_samples)
        return self._mel.features(samples, padded)[:, :count]
