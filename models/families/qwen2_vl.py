"""Qwen2-VL: a Qwen2 decoder with three-axis positions, and a vision tower whose rows replace placeholders."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from models.checkpoint import Checkpoint
from models.decoder import Decoder, DecoderConfig
from models.families.qwen_vision import QwenVision, VisionConfig
from models.interface import EncoderInput, ForwardBatch, PagedAttention
from models.processing.base import Processing
from models.processing.qwen2_vl import Qwen2VLProcessing
from models.weights import Weights

MODEL_PREFIXES = ("model.language_model.", "language_model.", "model.")
VISION_PREFIXES = ("model.visual.", "visual.")


def pixel_values(processing: Processing) -> np.ndarray:
    """What a byte of a prepared picture means in each channel: float32 [256, 3]."""
    assert isinstance(processing, Qwen2VLProcessing)
    return processing.images.values


class QwenVisionLanguageModel:
    """`ServedModel` of Qwen's vision-language models: embed, put the encodings in place, decode."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        processing: Processing,
        decoder: Decoder,
        vision: QwenVision,
        weights: Weights,
    ) -> None:
        self.architecture = checkpoint.architecture
        self.processing = processing
        self.decoder = decoder
        self.vision = vision
        self.attention = decoder.config.attention
        self.dtype, self.device = weights.dtype, weights.device
        self.vocab_size = decoder.config.vocab_size
        self.max_positions = decoder.config.max_positions
        self.encoding_width = decoder.config.hidden_size

    def encode(self, kind: str, items: Sequence[EncoderInput]) -> list[torch.Tensor]:
        """[num_tokens, hidden_size] each; one by one, so that none depends on its neighbours."""
        return [self._encode(kind, item) for item in items]

    def _encode(self, kind: str, item: EncoderInput) -> torch.Tensor:
        if kind != "image":
            raise ValueError(f"this model takes no {kind}")
        return self.vision(item.arrays["patches"], item.layout.grid)

    def forward(self, batch: ForwardBatch, attention: PagedAttention) -> torch.Tensor:
        hidden = self.decoder.embed(batch.ids)
        for rows in batch.media:
            hidden[rows.start : rows.end] = rows.encoding
        return self.decoder(hidden, batch.positions, attention)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.decoder.logits(hidden)


class Qwen2VLModel(QwenVisionLanguageModel):
    @classmethod
    def load(
        cls,
        checkpoint: Checkpoint,
        config: Any,
        weights: Weights,
        processing: Processing,
        dtype: torch.dtype,
        device: torch.device,
    ) -> "Qwen2VLModel":
        """config: transformers' Qwen2VLConfig. CheckpointError where a tensor is missing or misshapen."""
        text = DecoderConfig.from_text_config(config.text_config, tie=config.tie_word_embeddings)
        vision = QwenVision(
            VisionConfig.plain(config.vision_config),
            weights.prefixed(*VISION_PREFIXES),
            pixel_values(processing),
        )
        return cls(checkpoint, processing, Decoder(text, weights, MODEL_PREFIXES), vision, weights)
