"""Qwen2.5-Omni's thinker without its weights: pictures as Qwen2.5-VL takes them, sounds as log-mel frames."""

from typing import Any

import numpy as np

from models.checkpoint import Checkpoint
from models.processing.base import MediaLayout, PreparedMedia
from models.processing.fingerprint import fingerprint
from models.processing.image import PatchedImages
from models.processing.mel_sounds import MelSounds
from models.processing.qwen2_vl import Qwen2VLProcessing
from models.processing.text import Marked


class Qwen2_5OmniProcessing(Qwen2VLProcessing):
    """`Processing` of the thinker. One audio token stands for 40 ms; the template writes the brackets."""

    kinds = frozenset({"image", "audio"})

    def __init__(
        self, images: PatchedImages, sounds: MelSounds, tokens: dict[str, str], ids: dict[str, int]
    ) -> None:
        """tokens, ids: the placeholder of each kind."""
        super().__init__(images, tokens["image"], ids["image"])
        self.placeholders = {kind: Marked(tokens[kind], ids[kind]) for kind in self.kinds}
        self.sounds = sounds
        self.sampling_rate = sounds.sampling_rate
        self.fingerprint = fingerprint(self, {**images.settings, "sounds": sounds.settings})

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "Qwen2_5OmniProcessing":
        thinker = checkpoint.config.get("thinker_config") or checkpoint.config
        names = checkpoint.tokenizer_config
        return cls(
            PatchedImages.from_checkpoint(checkpoint),
            MelSounds.from_checkpoint(checkpoint),
            {"image": names.get("image_token", "<|IMAGE|>"), "audio": names.get("audio_token", "<|AUDIO|>")},
            {"image": _token_id(thinker, "image", 151655), "audio": _token_id(thinker, "audio", 151646)},
        )

    def audio_layout(self, num_samples: int) -> MediaLayout:
        return self.sounds.layout(num_samples)

    def prepare_audio(self, samples: np.ndarray) -> PreparedMedia:
        """input_features: float32 [mel bins, frames], padding left out."""
        return {"input_features": self.sounds.frames(samples, self.sounds.num_frames(len(samples)))}


def _token_id(thinker: dict[str, Any], kind: str, published: int) -> int:
    return thinker.get(f"{kind}_token_index", thinker.get(f"{kind}_token_id", published))
