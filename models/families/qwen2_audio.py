"""Qwen2-Audio: Whisper's encoder with its rows pooled in pairs, one matrix, and a language model."""

from typing import Any, Self

import torch

from models.checkpoint import Checkpoint
from models.decoder import Decoder
from models.decoder_config import DecoderConfig
from models.families.published import TEXT_PREFIXES
from models.families.text import TextModel
from models.families.whisper import WhisperConfig, WhisperEncoder
from models.interface import EncoderInput
from models.linear import Map, packed, take_linear
from models.processing.qwen2_audio import Qwen2AudioProcessing
from models.weights import Weights


class Qwen2AudioModel(TextModel):
    """`ServedModel` of a Qwen2-Audio checkpoint."""

    encoder: WhisperEncoder
    projector: Map

    @classmethod
    def load(
        cls, checkpoint: Checkpoint, config: Any, weights: Weights, processing: Qwen2AudioProcessing
    ) -> Self:
        text = DecoderConfig.from_text_config(config.text_config, tie=False)
        model = cls(checkpoint, processing, Decoder(text, weights, TEXT_PREFIXES))
        both, audio = weights.prefixed("", "model."), WhisperConfig.of(config.audio_config)
        model.encoder = WhisperEncoder(audio, both.prefixed("audio_tower."))
        projector = take_linear(both, "multi_modal_projector.linear", audio.width, text.hidden_size)
        model.projector = packed(projector)
        return model

    def encode_one(self, kind: str, item: EncoderInput) -> torch.Tensor:
        """Padding to the encoder's whole context is left out: the reference hides it from attention."""
        if kind != "audio":
            return super().encode_one(kind, item)
        features = item.arrays["input_features"].to(self.dtype)
        rows = self.encoder.convolve(features[None])[:, : features.shape[1] // 2]
        rows = self.encoder.transform(rows, rows.shape[1])[0]
        pairs = rows[: 2 * item.layout.num_tokens].unflatten(0, (-1, 2))
        return self.projector(self.encoder.final_norm((pairs[:, 0] + pairs[:, 1]) / 2))
