"""Qwen2.5-Omni's thinker: pictures and sounds in, text out. Its talker, which makes speech, is left aside."""

from typing import Any, Self

import torch

from models.checkpoint import Checkpoint
from models.families.qwen2_vl import Qwen2VLModel
from models.families.qwen_audio import AudioConfig, QwenAudio
from models.interface import EncoderInput
from models.processing.qwen2_vl import Qwen2VLProcessing
from models.weights import Weights

_AUDIO_PREFIXES = ("model.audio_tower.", "audio_tower.")


class Qwen2_5OmniModel(Qwen2VLModel):
    """`ServedModel` of a thinker: a Qwen2.5-VL that also hears."""

    audio: QwenAudio

    @classmethod
    def load(
        cls, checkpoint: Checkpoint, config: Any, weights: Weights, processing: Qwen2VLProcessing
    ) -> Self:
        """config: of the whole model or of its thinker alone."""
        thinker, view = getattr(config, "thinker_config", config), weights.prefixed("thinker.", "")
        model = super().load(checkpoint, thinker, view, processing)
        model.audio = QwenAudio(AudioConfig.of(thinker.audio_config), view.prefixed(*_AUDIO_PREFIXES))
        return model

    def encode_one(self, kind: str, item: EncoderInput) -> torch.Tensor:
        if kind != "audio":
            return super().encode_one(kind, item)
        return self.audio(item.arrays["input_features"])
