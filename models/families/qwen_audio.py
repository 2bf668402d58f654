"""The audio tower of Qwen2.5-Omni: log-mel frames in, one row for every 40 ms out.

A Whisper encoder whose convolutions, positions and attention stay within chunks (2 s as published), then
pooling of neighbours. Knows nothing of samples or tokens. One sound at a time.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from models.checkpoint import CheckpointError
from models.encoder_attention import attend_in_runs
from models.encoder_block import WHISPER, BlockSizes, EncoderBlock, take_norm
from models.families.whisper import EPS, take_convolution
from models.linear import packed, take_linear
from models.weights import Weights


@dataclass(frozen=True)
class AudioConfig:
    """Sizes of one tower. chunk_frames: mel frames that are convolved and attended together."""

    depth: int
    width: int
    num_heads: int
    mlp_width: int
    out_width: int
    num_mel_bins: int
    chunk_frames: int

    @classmethod
    def of(cls, audio: Any) -> "AudioConfig":
        """audio: the audio part of a Qwen2.5-Omni configuration."""
        if audio.activation_function != "gelu":
            raise CheckpointError(f"An audio tower with {audio.activation_function!r} is not supported")
        return cls(
            depth=audio.encoder_layers,
            width=audio.d_model,
            num_heads=audio.encoder_attention_heads,
            mlp_width=audio.encoder_ffn_dim,
            out_width=audio.output_dim,
            num_mel_bins=audio.num_mel_bins,
            chunk_frames=2 * audio.n_window,
        )


class QwenAudio:
    """A tower's weights, taken from `weights` as seen below the tower's prefix."""

    def __init__(self, config: AudioConfig, weights: Weights) -> None:
        self.config = config
        self.conv1 = take_convolution(weights, "conv1", config.num_mel_bins, config.width)
        self.conv2 = take_convolution(weights, "conv2", config.width, config.width)
        positions = _sinusoids((config.chunk_frames + 1) // 2, config.width)
        self.positions = positions.to(device=weights.device, dtype=weights.dtype)
        sizes = BlockSizes(config.width, config.num_heads, config.mlp_width, EPS, "gelu")
        views = (weights.prefixed(f"layers.{index}.") for index in range(config.depth))
        self.blocks = [EncoderBlock(sizes, WHISPER, view) for view in views]
        self.final_norm = take_norm(weights, "ln_post", config.width, EPS)
        self.proj = packed(take_linear(weights, "proj", config.width, config.out_width))

    def __call__(self, features: torch.Tensor) -> torch.Tensor:
        """[mel bins, frames] of one sound -> [tokens, out_width]."""
        size = self.config.chunk_frames
        whole = features.shape[1] // size * size
        features = features.to(self.positions.dtype)
        parts = [features[:, :whole].unflatten(1, (-1, size)).transpose(0, 1), features[None, :, whole:]]
        chunks = [self._convolve(part) for part in parts if part.numel()]
        hidden = torch.cat([chunk.flatten(0, 1) for chunk in chunks])
        runs = [(chunk.shape[0], chunk.shape[1]) for chunk in chunks]
        for block in self.blocks:
            hidden = block(hidden, partial(attend_in_runs, runs=runs))
        pairs = hidden[: len(hidden) // 2 * 2].unflatten(0, (-1, 2))
        return self.proj(self.final_norm((pairs[:, 0] + pairs[:, 1]) / 2))

    def _convolve(self, chunks: torch.Tensor) -> torch.Tensor:
        """[chunks, mel bins, frames] -> [chunks, frames / 2, width], positions from each chunk's start."""
        x = F.gelu(F.conv1d(chunks, *self.conv1, padding=1))
        x = F.gelu(F.conv1d(x, *self.conv2, stride=2, padding=1)).transpose(1, 2)
        return x + self.positions[: x.shape[1]]


def _sinusoids(length: int, width: int) -> torch.Tensor:
    """Whisper's fixed positions: float32 [length, width], sines then cosines."""
    step = math.log(10000) / (width // 2 - 1)
    angles = torch.arange(length)[:, None] * torch.exp(-step * torch.arange(width // 2).float())
    return torch.cat((angles.sin(), angles.cos()), dim=1)
