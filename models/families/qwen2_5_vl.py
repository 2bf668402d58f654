"""Qwen2.5-VL: Qwen2-VL with a vision tower that attends within windows."""

from typing import Any

import torch

from models.checkpoint import Checkpoint
from models.decoder import Decoder, DecoderConfig
from models.families.qwen2_vl import MODEL_PREFIXES, VISION_PREFIXES, QwenVisionLanguageModel, pixel_values
from models.families.qwen_vision import QwenVision, VisionConfig
from models.processing.base import Processing
from models.weights import Weights


class Qwen2_5VLModel(QwenVisionLanguageModel):
    @classmethod
    def load(
        cls,
        checkpoint: Checkpoint,
        config: Any,
        weights: Weights,
        processing: Processing,
        dtype: torch.dtype,
        device: torch.device,
    ) -> "Qwen2_5VLModel":
        """config: transformers' Qwen2_5_VLConfig. CheckpointError where a tensor is missing or misshapen."""
        text = DecoderConfig.from_text_config(config.text_config, tie=config.tie_word_embeddings)
        vision = QwenVision(
            VisionConfig.windowed(config.vision_config),
            weights.prefixed(*VISION_PREFIXES),
            pixel_values(processing),
        )
        return cls(checkpoint, processing, Decoder(text, weights, MODEL_PREFIXES), vision, weights)
