"""The audio tower of Qwen2.5-Omni: log-mel frames in, one row for every 40 ms out.

A Whisper encoder whose convolutions, positions and attention stay within chunks (2 s as published), then
pooling of neighbours. Knows nothing of samples or tokens. One sound at a time.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from models.checkpoint import CheckpointError
from models.encoder_attention import Runs, attend_in_runs
from models.linear import Linear, Map, packed, stack, take_linear
from models.weights import Weights

_EPS = 1e-5


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


class Norm(NamedTuple):
    weight: torch.Tensor
    bias: torch.Tensor

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, _EPS)


class AudioBlock(NamedTuple):
    norm1: Norm
    qkv: Map
    out: Map
    norm2: Norm
    fc1: Map
    fc2: Map


class QwenAudio:
    """A tower's weights, taken from `weights` as seen below the tower's prefix."""

    def __init__(self, config: AudioConfig, weights: Weights) -> None:
        self.config = config
        self.conv1 = _take_conv(weights, "conv1", config.num_mel_bins, config.width)
        self.conv2 = _take_conv(weights, "conv2", config.width, config.width)
        positions = _sinusoids((config.chunk_frames + 1) // 2, config.width)
        self.positions = positions.to(device=weights.device, dtype=weights.dtype)
        self.blocks = [_take_block(config, weights.prefixed(f"layers.{i}.")) for i in range(config.depth)]
        self.final_norm = _take_norm(weights, "ln_post", config.width)
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
            hidden = self._attention(block, block.norm1(hidden), runs).add_(hidden)
            hidden = block.fc2(block.fc1(block.norm2(hidden))).add_(hidden)
        pairs = hidden[: len(hidden) // 2 * 2].unflatten(0, (-1, 2))
        return self.proj(self.final_norm((pairs[:, 0] + pairs[:, 1]) / 2))

    def _convolve(self, chunks: torch.Tensor) -> torch.Tensor:
        """[chunks, mel bins, frames] -> [chunks, frames / 2, width], positions from each chunk's start."""
        x = F.gelu(F.conv1d(chunks, *self.conv1, padding=1))
        x = F.gelu(F.conv1d(x, *self.conv2, stride=2, padding=1)).transpose(1, 2)
        return x + self.positions[: x.shape[1]]

    def _attention(self, block: AudioBlock, x: torch.Tensor, runs: Runs) -> torch.Tensor:
        q, k, v = block.qkv(x).unflatten(-1, (3, self.config.num_heads, -1)).permute(1, 2, 0, 3)
        return block.out(attend_in_runs(q, k, v, runs))


def _take_block(config: AudioConfig, weights: Weights) -> AudioBlock:
    width = config.width
    key = weights.take("self_attn.k_proj.weight", shape=(width, width))
    qkv = stack(
        take_linear(weights, "self_attn.q_proj", width, width),
        Linear(key, key.new_zeros(width)),
        take_linear(weights, "self_attn.v_proj", width, width),
    )
    return AudioBlock(
        norm1=_take_norm(weights, "self_attn_layer_norm", width),
        qkv=packed(qkv),
        out=packed(take_linear(weights, "self_attn.out_proj", width, width)),
        norm2=_take_norm(weights, "final_layer_norm", width),
        fc1=packed(take_linear(weights, "fc1", width, config.mlp_width), "gelu"),
        fc2=packed(take_linear(weights, "fc2", config.mlp_width, width)),
    )


def _take_norm(weights: Weights, name: str, width: int) -> Norm:
    return Norm(weights.take(f"{name}.weight", shape=(width,)), weights.take(f"{name}.bias", shape=(width,)))


def _take_conv(weights: Weights, name: str, inputs: int, outputs: int) -> tuple[torch.Tensor, torch.Tensor]:
    weight = weights.take(f"{name}.weight", shape=(outputs, inputs, 3))
    return weight, weights.take(f"{name}.bias", shape=(outputs,))


def _sinusoids(length: int, width: int) -> torch.Tensor:
    """Whisper's fixed positions: float32 [length, width], sines then cosines."""
    step = math.log(10000) / (width // 2 - 1)
    angles = torch.arange(length)[:, None] * torch.exp(-step * torch.arange(width // 2).float())
    return torch.cat((angles.sin(), angles.cos()), dim=1)
