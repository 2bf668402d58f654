"""Qwen2.5-Omni's thinker: pictures and sounds in, text out. Its talker, which makes speech, is left aside."""

from typing import Any

import torch

from models.checkpoint import Checkpoint
from models.decoder import Decoder, DecoderConfig
from models.families.qwen2_vl import MODEL_PREFIXES, VISION_PREFIXES, QwenVisionLanguageModel, pixel_values
from models.families.qwen_audio import AudioConfig, QwenAudio
from models.families.qwen_vision import QwenVision, VisionConfig
from models.interface import EncoderInput
from models.processing.base import Processing
from models.weights import Weights


class Qwen2_5OmniModel(QwenVisionLanguageModel):
    audio: QwenAudio

    @classmethod
    def load(
        cls,
        checkpoint: Checkpoint,
        config: Any,
        weights: Weights,
        processing: Processing,
        dtype: torch.dtype,
        device: torch.device,
    ) -> "Qwen2_5OmniModel":
        """config: of the whole model or of its thinker alone. CheckpointError for missing tensors."""
        thinker = getattr(config, "thinker_config", config)
        view = weights.prefixed("thinker.", "")
        text = DecoderConfig.from_text_config(thinker.text_config, tie=thinker.tie_word_embeddings)
        vision = QwenVision(
            VisionConfig.windowed(thinker.vision_config, split_qkv=True),
            view.prefixed(*VISION_PREFIXES),
            pixel_values(processing),
        )
        model = cls(checkpoint, processing, Decoder(text, view, MODEL_PREFIXES), vision, weights)
        model.audio = QwenAudio(
            AudioConfig.of(thinker.audio_config), view.prefixed("model.audio_tower.", "audio_tower.")
        )
        return model

    def _encode(self, kind: str, item: EncoderInput) -> torch.Tensor:
        if kind == "audio":
            return self.audio(item.arrays["input_features"])
        return super()._encode(kind, item)
