"""Qwen2-VL and Qwen2.5-VL: a Qwen2 decoder with three-axis positions, and a vision tower whose rows replace
placeholders."""

from typing import Any, Self

import torch

from models.checkpoint import Checkpoint, CheckpointError
from models.decoder import Decoder
from models.decoder_config import DecoderConfig
from models.families.qwen_vision import QwenVision
from models.families.qwen_vision_config import VisionConfig
from models.families.text import TextModel
from models.interface import EncoderInput
from models.processing.image import PatchedImages
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
        vision = VisionConfig.of(config.vision_config)
        _require_fit(vision, text, processing.images)
        model = cls(checkpoint, processing, Decoder(text, weights, _TEXT_PREFIXES))
        model.vision = QwenVision(vision, weights.prefixed(*_VISION_PREFIXES), processing.images.values)
        model.encoding_width = vision.output_width
        return model

    def encode_one(self, kind: str, item: EncoderInput) -> torch.Tensor:
        if kind != "image":
            return super().encode_one(kind, item)
        return self.vision(item.arrays["patches"], item.layout.grid)


def _require_fit(vision: VisionConfig, text: DecoderConfig, images: PatchedImages) -> None:
    prepared, taken = (images.patch_size, images.merge_size), (vision.patch_shape[-1], vision.merge)
    if prepared != taken:
        raise CheckpointError(
            f"Pictures prepared for patches and merged sides of {prepared}, where the vision tower takes "
            f"{taken}, are not supported"
        )
    if vision.out_width != text.hidden_size:
        raise CheckpointError(
            f"A vision tower that gives rows of {vision.out_width}, where the language model reads "
            f"{text.hidden_size}, is not supported"
        )
