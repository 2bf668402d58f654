"""Qwen2.5-Omni's thinker without its weights: pictures as Qwen2.5-VL takes them, sounds as log-mel frames."""

from typing import Any

import numpy as np

from models.checkpoint import Checkpoint
from models.processing.audio_mel import LogMel
from models.processing.base import MediaError, MediaLayout, Placeholder, PreparedMedia
from models.processing.fingerprint import fingerprint
from models.processing.image import PatchedImages
from models.processing.qwen2_vl import Qwen2VLProcessing


class Qwen2_5OmniProcessing(Qwen2VLProcessing):
    """`Processing` of the thinker. One audio token stands for 40 ms; the template writes the brackets."""

    kinds = frozenset({"image", "audio"})

    def __init__(
        self, images: PatchedImages, sounds: dict[str, Any], tokens: dict[str, str], ids: dict[str, int]
    ) -> None:
        """sounds: the feature extractor's settings. tokens, ids: the placeholder of each kind."""
        super().__init__(images, tokens["image"], ids["image"])
        self.audio_token, self.audio_token_id = tokens["audio"], ids["audio"]
        self._mel = LogMel.from_config(sounds)
        self.sampling_rate = self._mel.sampling_rate
        self._max_samples = self._mel.chunk_length * self.sampling_rate
        settings = {name: value for name, value in sounds.items() if not isinstance(value, list)}
        self.fingerprint = fingerprint(self, {**images.settings, "sounds": settings})

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "Qwen2_5OmniProcessing":
        nested = (checkpoint.read_json("processor_config.json") or {}).get("feature_extractor")
        thinker = checkpoint.config.get("thinker_config") or checkpoint.config
        names = checkpoint.tokenizer_config
        return cls(
            PatchedImages.from_checkpoint(checkpoint),
            nested or checkpoint.read_json("preprocessor_config.json") or {},
            {"image": names.get("image_token", "<|IMAGE|>"), "audio": names.get("audio_token", "<|AUDIO|>")},
            {"image": _token_id(thinker, "image", 151655), "audio": _token_id(thinker, "audio", 151646)},
        )

    def marker(self, kind: str) -> str:
        return self.audio_token if kind == "audio" else super().marker(kind)

    def audio_layout(self, num_samples: int) -> MediaLayout:
        """A token for four frames. MediaError below one token, or past what the extractor takes."""
        if num_samples > self._max_samples:
            seconds = self._max_samples // self.sampling_rate
            raise MediaError(f"The audio is longer than this model's {seconds} seconds.", "audio_too_long")
        num_tokens = (self._num_frames(num_samples) + 1) // 4
        if num_tokens < 1:
            raise MediaError("The audio is too short for this model.", "audio_too_short")
        return MediaLayout(num_tokens)

    def prepare_audio(self, samples: np.ndarray) -> PreparedMedia:
        """input_features: float32 [mel bins, frames], padding left out.

        The extractor pads with silence to its full length; no frame sees more than two hops of it."""
        num_frames = self._num_frames(len(samples))
        padded = min((num_frames + 2) * self._mel.hop_length, self._max_samples)
        return {"input_features": self._mel.features(samples, padded)[:, :num_frames]}

    def placeholder(self, kind: str, layout: MediaLayout) -> Placeholder:
        if kind != "audio":
            return super().placeholder(kind, layout)
        return Placeholder([self.audio_token_id] * layout.num_tokens, [(0, layout.num_tokens)])

    def _num_frames(self, num_samples: int) -> int:
        hop = self._mel.hop_length
        return min(-(-num_samples // hop), self._max_samples // hop)


def _token_id(thinker: dict[str, Any], kind: str, published: int) -> int:
    return thinker.get(f"{kind}_token_index", thinker.get(f"{kind}_token_id", published))
