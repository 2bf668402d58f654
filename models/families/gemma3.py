"""Gemma 3 with pictures: SigLIP's vision tower, its rows pooled in squares and projected, and the language
model that reads them."""

from typing import Any, Self

import torch
import torch.nn.functional as F

from models.checkpoint import Checkpoint
from models.decoder import Decoder, rms_norm
from models.decoder_config import DecoderConfig
from models.families.published import TEXT_PREFIXES, VISION_PREFIXES
from models.families.siglip import SiglipVision
from models.families.text import TextModel
from models.interface import EncoderInput
from models.processing.gemma3 import Gemma3Processing
from models.weights import Weights


class Gemma3Model(TextModel):
    """`ServedModel` of a Gemma 3 checkpoint that takes pictures."""

    vision: SiglipVision
    projector: "Projector"

    @classmethod
    def load(
        cls, checkpoint: Checkpoint, config: Any, weights: Weights, processing: Gemma3Processing
    ) -> Self:
        text = DecoderConfig.from_text_config(config.text_config, tie=config.tie_word_embeddings)
        model = cls(checkpoint, processing, Decoder(text, weights, TEXT_PREFIXES))
        both = weights.prefixed("", "model.")
        vision = config.vision_config
        model.vision = SiglipVision(vision, both.prefixed(*VISION_PREFIXES), processing.images.values)
        model.projector = Projector(
            both.prefixed("multi_modal_projector."),
            model.vision.width,
            text.hidden_size,
            processing.squares.pooled,
            vision.layer_norm_eps,
        )
        return model

    def encode_one(self, kind: str, item: EncoderInput) -> torch.Tensor:
        if kind != "image":
            return super().encode_one(kind, item)
        return self.projector(self.vision(item.arrays["pixels"]))


class Projector:
    """The mean of each square of `pooled` by `pooled` rows, normed and mapped to the width of the text."""

    def __init__(self, weights: Weights, inputs: int, outputs: int, pooled: int, eps: float) -> None:
        self.pooled, self.eps = pooled, eps
        self.norm = weights.take("mm_soft_emb_norm.weight", shape=(inputs,)).float() + 1.0
        self.weight = weights.take("mm_input_projection_weight", shape=(inputs, outputs))

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """[grid * grid, inputs] -> [tokens, outputs]."""
        side = round(len(rows) ** 0.5)
        pooled = F.avg_pool2d(rows.T.unflatten(1, (side, side)), self.pooled)
        return rms_norm(pooled.flatten(1).T, self.norm, self.eps) @ self.weight
