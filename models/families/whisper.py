"""Whisper's encoder, for sounds of any length up to its context. Knows nothing of samples or tokens."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from models.checkpoint import CheckpointError
from models.encoder_attention import attend
from models.linear import Linear, Map, packed, stack, take_linear
from models.weights import Weights

_EPS = 1e-5
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
        """audio: transformers' configuration of a Whisper model."""
        if audio.model_type != "whisper" or audio.activation_function != "gelu":
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


class Affine(NamedTuple):
    """weight [out, in, 3] of a convolution, or [width] of a layer norm, and its bias."""

    weight: torch.Tensor
    bias: torch.Tensor


class WhisperLayer(NamedTuple):
    """One layer; the rows of query, key and value are fused in this order, the activation into `up`."""

    attention_norm: Affine
    qkv: Map
    out: Map
    mlp_norm: Affine
    up: Map
    down: Map


class WhisperEncoder:
    """weights: as seen below the encoder's prefix."""

    def __init__(self, config: WhisperConfig, weights: Weights) -> None:
        width = config.width
        self.config = config
        self.conv1 = _take(weights, "conv1", width, config.num_mels, 3)
        self.conv2 = _take(weights, "conv2", width, width, 3)
        self.positions = weights.take("embed_positions.weight", shape=(config.max_positions, width))
        self.layers = [_take_layer(config, weights.prefixed(f"layers.{i}.")) for i in range(config.depth)]
        self.final_norm = _take(weights, "layer_norm", width)

    def __call__(self, features: torch.Tensor, num_valid: int) -> torch.Tensor:
        """features [batch, mels, frames] -> [batch, ceil(frames / 2), width].

        num_valid: only the first so many rows of the result are seen by the others; the rest are padding.
        """
        x = F.gelu(F.conv1d(features, *self.conv1, padding=1))
        x = F.gelu(F.conv1d(x, *self.conv2, stride=2, padding=1)).transpose(1, 2)
        x = x + self.positions[: x.shape[1]]
        for layer in self.layers:
            x = self._attention(layer, x, num_valid).add_(x)
            x = layer.down(layer.up(_norm(x, layer.mlp_norm))).add_(x)
            if x.dtype is torch.float16:
                x = x.clamp(-_FLOAT16_LIMIT, _FLOAT16_LIMIT)
        return _norm(x, self.final_norm)

    def _attention(self, layer: WhisperLayer, x: torch.Tensor, num_valid: int) -> torch.Tensor:
        qkv = layer.qkv(_norm(x, layer.attention_norm))
        q, k, v = qkv.unflatten(-1, (3, self.config.num_heads, -1)).permute(2, 0, 3, 1, 4)
        out = attend(q, k[:, :, :num_valid], v[:, :, :num_valid])
        return layer.out(out.transpose(1, 2).flatten(2))


def _norm(x: torch.Tensor, norm: Affine) -> torch.Tensor:
    return F.layer_norm(x, norm.weight.shape, norm.weight, norm.bias, _EPS)


def _take(weights: Weights, name: str, *shape: int) -> Affine:
    return Affine(weights.take(f"{name}.weight", shape=shape), weights.take(f"{name}.bias", shape=shape[:1]))


def _take_layer(config: WhisperConfig, weights: Weights) -> WhisperLayer:
    width, inner = config.width, config.mlp_width
    query, value = (take_linear(weights, f"self_attn.{name}_proj", width, width) for name in "qv")
    key = weights.take("self_attn.k_proj.weight", shape=(width, width))
    return WhisperLayer(
        attention_norm=_take(weights, "self_attn_layer_norm", width),
        qkv=packed(stack(query, Linear(key, key.new_zeros(width)), value)),
        out=packed(take_linear(weights, "self_attn.out_proj", width, width)),
        mlp_norm=_take(weights, "final_layer_norm", width),
        up=packed(take_linear(weights, "fc1", width, inner), "gelu"),
        down=packed(take_linear(weights, "fc2", inner, width)),
    )
