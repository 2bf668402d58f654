"""Qwen2-VL and Qwen2.5-VL: a Qwen2 decoder with three-axis positions, and a vision tower whose rows replace
placeholders."""

from typing import Any, Self

import torch

from models.checkpoint import Checkpoint
from models.decoder import Decoder, DecoderConfig
from models.families.qwen_vision import QwenVision, VisionConfig
from models.families.text import TextModel
from models.interface import EncoderInput
from models.processing.qwen2_vl import Qwen2VLProcessing
from models.weights import Weights

_TEXT_PREFIXES = ("model.language_model.", "language_model.", "model.")
_VISION_PREFIXES = ("model.visual.", "visual.")


class Qwen2VLModel(TextModel):
    """`ServedModel` of Qwen's vision-language models."""

    vision: QwenVision

    @classmethod
    def load(
        cls, checkpoint: Checkpoint, config: Any, weights: Weights, processing: Qwen2VLProcessing
    ) -> Self:
        text = DecoderConfig.from_text_config(config.text_config, tie=config.tie_word_embeddings)
        model = cls(checkpoint, processing, Decoder(text, weights, _TEXT_PREFIXES))
        model.vision = QwenVision(
            VisionConfig.of(config.vision_config),
            weights.prefixed(*_VISION_PREFIXES),
            processing.images.values,
        )
        return model

    def encode_one(self, kind: str, item: EncoderInput) -> torch.Tensor:
        if kind != "image":
            return super().encode_one(kind, item)
        return self.vision(item.arrays["patches"], item.layout.grid)
