"""The vision tower of the Qwen-VL families: patches in, one row for each merged patch out.

Qwen2-VL attends over the whole picture; later models in a few layers, and within windows in the rest.
Knows nothing of pixels' preparation, of tokens, or of the language model. One still picture at a time.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from models.checkpoint import CheckpointError
from models.encoder_attention import Runs, attend_in_runs
from models.families.qwen_windows import VisionPlan, plan_vision
from models.linear import Linear, Map, packed, stack, take_linear
from models.weights import Weights

_EPS = 1e-6
_NUM_PLANS = 8
"""Sizes of pictures whose tables are kept; a table takes a few hundred bytes a patch."""


@dataclass(frozen=True)
class VisionConfig:
    """Sizes and flags of one tower. window: side in merged patches, 0 for a tower without windows."""

    depth: int
    width: int
    num_heads: int
    mlp_width: int
    out_width: int
    patch_shape: tuple[int, int, int, int]
    merge: int
    gated: bool
    """Qwen2.5's blocks: RMS norms and a gated MLP, instead of layer norms and a plain one."""
    split_qkv: bool
    """Queries, keys and values are published apart (Omni)."""
    window: int
    full_layers: frozenset[int]

    @classmethod
    def of(cls, vision: Any) -> "VisionConfig":
        """vision: the vision part of a configuration of Qwen2-VL, Qwen2.5-VL or Qwen2.5-Omni."""
        return cls._plain(vision) if vision.model_type == "qwen2_vl_vision" else cls._windowed(vision)

    @classmethod
    def _plain(cls, vision: Any) -> "VisionConfig":
        _require_activation(vision.hidden_act, "quick_gelu")
        return cls(
            depth=vision.depth,
            width=vision.embed_dim,
            num_heads=vision.num_heads,
            mlp_width=int(vision.embed_dim * vision.mlp_ratio),
            out_width=vision.hidden_size,
            patch_shape=_patch_shape(vision),
            merge=vision.spatial_merge_size,
            gated=False,
            split_qkv=False,
            window=0,
            full_layers=frozenset(range(vision.depth)),
        )

    @classmethod
    def _windowed(cls, vision: Any) -> "VisionConfig":
        _require_activation(vision.hidden_act, "silu")
        return cls(
            depth=vision.depth,
            width=vision.hidden_size,
            num_heads=vision.num_heads,
            mlp_width=vision.intermediate_size,
            out_width=vision.out_hidden_size,
            patch_shape=_patch_shape(vision),
            merge=vision.spatial_merge_size,
            gated=True,
            split_qkv=vision.model_type == "qwen2_5_omni_vision_encoder",
            window=vision.window_size // vision.spatial_merge_size // vision.patch_size,
            full_layers=frozenset(vision.fullatt_block_indexes),
        )

    @property
    def head_dim(self) -> int:
        return self.width // self.num_heads


class VisionBlock(NamedTuple):
    """One layer. qkv: queries and keys with the pairs that turn together side by side."""

    norm1: Map
    qkv: Map
    proj: Map
    norm2: Map
    mlp: Map


class QwenVision:
    """A tower's weights, taken from `weights` as seen below the tower's prefix.

    values: what a byte means in each channel, float32 [256, 3], a straight line.
    """

    def __init__(self, config: VisionConfig, weights: Weights, values: np.ndarray) -> None:
        self.config = config
        merged = config.width * config.merge**2
        patch = weights.take("patch_embed.proj.weight", shape=(config.width, *config.patch_shape))
        self.dtype = patch.dtype
        self.patch_embed = packed(_still(patch))
        lowest, highest = torch.from_numpy(values[[0, -1]]).repeat(1, math.prod(config.patch_shape[2:]))
        self._offset = lowest.to(patch.device)
        self._scale = ((highest - lowest) / (len(values) - 1)).to(patch.device)
        self.blocks = [_take_block(config, weights.prefixed(f"blocks.{i}.")) for i in range(config.depth)]
        self.merger_norm = _take_norm(config, weights, "merger.ln_q")
        self.merger_in = packed(take_linear(weights, "merger.mlp.0", merged, merged), "gelu")
        self.merger_out = packed(take_linear(weights, "merger.mlp.2", merged, config.out_width))
        self._plan = lru_cache(_NUM_PLANS)(
            lambda grid: plan_vision(grid, config.merge, config.window, config.head_dim, weights.device)
        )

    def __call__(self, patches: torch.Tensor, grid: tuple[int, int, int]) -> torch.Tensor:
        """uint8 [patches, patch * patch * 3] -> [patches / merge², out_width], in reading order."""
        plan = self._plan(grid)
        pixels = patches.float().mul_(self._scale).add_(self._offset)
        hidden = self.patch_embed(pixels.to(self.dtype))
        unit = self.config.merge**2
        hidden = hidden.unflatten(0, (-1, unit))[plan.order].flatten(0, 1)
        for index, block in enumerate(self.blocks):
            runs = plan.whole if index in self.config.full_layers else plan.windows
            hidden = self._attention(block, block.norm1(hidden), plan, runs).add_(hidden)
            hidden = block.mlp(block.norm2(hidden)).add_(hidden)
        merged = self.merger_norm(hidden).reshape(len(plan.order), -1)
        return self.merger_out(self.merger_in(merged))[plan.inverse]

    def _attention(self, block: VisionBlock, x: torch.Tensor, plan: VisionPlan, runs: Runs) -> torch.Tensor:
        qkv = block.qkv(x).unflatten(-1, (3, self.config.num_heads, self.config.head_dim))
        q, k = _turned(qkv[:, :2], plan.turns)
        return block.proj(attend_in_runs(q, k, qkv[:, 2].transpose(0, 1), runs))


def _turned(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Rotate neighbouring pairs of x [rows, 2, heads, dim] by turns, complex64 [rows, 1, 1, dim / 2].

    Computed in float32. Returns [2, heads, rows, dim], dtype of x.
    """
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    pairs *= turns
    rows, two, heads, dim = x.shape
    out = x.new_empty(two, heads, rows, dim)
    return out.copy_(torch.view_as_real(pairs).flatten(-2).permute(1, 2, 0, 3))


def _still(patch: torch.Tensor) -> Linear:
    """The embedding [width, channels, frames, patch, patch] where frames are alike; channels come last."""
    return Linear(patch.float().sum(2).permute(0, 2, 3, 1).flatten(1).to(patch.dtype), None)


def _take_block(config: VisionConfig, weights: Weights) -> VisionBlock:
    width = config.width
    if config.split_qkv:
        qkv = stack(*(take_linear(weights, f"attn.{name}", width, width) for name in "qkv"))
    else:
        qkv = take_linear(weights, "attn.qkv", width, 3 * width)
    return VisionBlock(
        norm1=_take_norm(config, weights, "norm1"),
        qkv=packed(_with_pairs_together(config, qkv)),
        proj=packed(take_linear(weights, "attn.proj", width, width)),
        norm2=_take_norm(config, weights, "norm2"),
        mlp=_take_mlp(config, weights),
    )


def _with_pairs_together(config: VisionConfig, qkv: Linear) -> Linear:
    """Queries and keys turn in pairs (i, i + dim / 2): with the two side by side a pair is a complex number.

    Both are reordered alike, so their products stay as they were."""
    rows = torch.arange(3 * config.width).view(3, config.num_heads, 2, -1)
    paired = rows[:2].transpose(-2, -1).flatten()
    order = torch.cat((paired, rows[2].flatten())).to(qkv.weight.device)
    return Linear(qkv.weight[order], None if qkv.bias is None else qkv.bias[order])


def _take_mlp(config: VisionConfig, weights: Weights) -> Map:
    width, inner = config.width, config.mlp_width
    if config.gated:
        gate = packed(take_linear(weights, "mlp.gate_proj", width, inner), "silu")
        up = packed(take_linear(weights, "mlp.up_proj", width, inner))
        down = packed(take_linear(weights, "mlp.down_proj", inner, width))
        return lambda x: down(gate(x).mul_(up(x)))
    first = packed(take_linear(weights, "mlp.fc1", width, inner), "quick_gelu")
    second = packed(take_linear(weights, "mlp.fc2", inner, width))
    return lambda x: second(first(x))


def _take_norm(config: VisionConfig, weights: Weights, name: str) -> Map:
    shape = (config.width,)
    weight = weights.take(f"{name}.weight", shape=shape)
    if config.gated:
        return lambda x: F.rms_norm(x, shape, weight, _EPS)
    bias = weights.take(f"{name}.bias", shape=shape)
    return lambda x: F.layer_norm(x, shape, weight, bias, _EPS)


def _patch_shape(vision: Any) -> tuple[int, int, int, int]:
    if vision.in_channels != 3:
        raise CheckpointError(
            f"A vision tower of {vision.in_channels} channels instead of 3 is not supported"
        )
    return vision.in_channels, vision.temporal_patch_size, vision.patch_size, vision.patch_size


def _require_activation(found: str, wanted: str) -> None:
    if found != wanted:
        raise CheckpointError(
            f"A vision tower with the activation {found!r} instead of {wanted!r} is not supported"
        )
