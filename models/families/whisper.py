"""Whisper's encoder, for sounds of any length up to its context. Knows nothing of samples or tokens."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from models.checkpoint import CheckpointError
from models.encoder_attention import attend
from models.encoder_block import WHISPER, BlockSizes, EncoderBlock, take_norm
from models.weights import Weights

EPS = 1e-5
_FLOAT16_LIMIT = torch.finfo(torch.float16).max - 1000


@dataclass(frozen=True)
class WhisperConfig:
    """Sizes of one encoder. max_positions: rows that it returns at most, each of two mel frames."""

    depth: int
    width: int
    num_heads: int
    mlp_width: int
    num_mels: int
    max_positions: int

    @classmethod
    def of(cls, audio: Any) -> "WhisperConfig":
        """audio: transformers' configuration of a Whisper model, or of Qwen2-Audio's encoder."""
        if audio.model_type not in ("whisper", "qwen2_audio_encoder") or audio.activation_function != "gelu":
            raise CheckpointError(
                f"An audio encoder of the type {audio.model_type!r} with {audio.activation_function!r} "
                "is not supported"
            )
        return cls(
            depth=audio.encoder_layers,
            width=audio.d_model,
            num_heads=audio.encoder_attention_heads,
            mlp_width=audio.encoder_ffn_dim,
            num_mels=audio.num_mel_bins,
            max_positions=audio.max_source_positions,
        )


class WhisperEncoder:
    """weights: as seen below the encoder's prefix."""

    def __init__(self, config: WhisperConfig, weights: Weights) -> None:
        width = config.width
        self.config = config
        self.conv1 = take_convolution(weights, "conv1", config.num_mels, width)
        self.conv2 = take_convolution(weights, "conv2", width, width)
        self.positions = weights.take("embed_positions.weight", shape=(config.max_positions, width))
        sizes = BlockSizes(width, config.num_heads, config.mlp_width, EPS, "gelu")
        views = (weights.prefixed(f"layers.{index}.") for index in range(config.depth))
        self.blocks = [EncoderBlock(sizes, WHISPER, view) for view in views]
        self.final_norm = take_norm(weights, "layer_norm", width, EPS)

    def __call__(self, features: torch.Tensor, num_valid: int) -> torch.Tensor:
        """features [batch, mels, frames] -> [batch, ceil(frames / 2), width].

        num_valid: only the first so many rows of the result are seen by the others; the rest are padding.
        """
        return self.final_norm(self.transform(self.convolve(features), num_valid))

    def convolve(self, features: torch.Tensor) -> torch.Tensor:
        """[batch, mels, frames] -> [batch, ceil(frames / 2), width]."""
        x = F.gelu(F.conv1d(features, *self.conv1, padding=1))
        return F.gelu(F.conv1d(x, *self.conv2, stride=2, padding=1)).transpose(1, 2)

    def transform(self, x: torch.Tensor, num_valid: int) -> torch.Tensor:
        """Positions and all layers but for the final norm, on x [batch, rows, width]. num_valid: as above."""
        x = x + self.positions[: x.shape[1]]

        def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return attend(q, k[:, :, :num_valid], v[:, :, :num_valid]).transpose(1, 2).flatten(2)

        for block in self.blocks:
            x = block(x, attention)
            if x.dtype is torch.float16:
                x = x.clamp(-_FLOAT16_LIMIT, _FLOAT16_LIMIT)
        return x


def take_convolution(
    weights: Weights, name: str, inputs: int, outputs: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight [outputs, inputs, 3] and bias of a convolution over three frames."""
    weight = weights.take(f"{name}.weight", shape=(outputs, inputs, 3))
    return weight, weights.take(f"{name}.bias", shape=(outputs,))
