"""The vision tower of the Qwen-VL families: patches in, one row for each merged patch out.

Qwen2-VL and Qwen3-VL attend over the whole picture; Qwen2.5 in a few layers, and within windows in the rest.
Qwen3-VL has learned positions too, and gives out rows after some layers beside those after the last.
Knows nothing of pixels' preparation, of tokens, or of the language model. One still picture at a time.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from models.encoder_attention import Runs, attend_in_runs
from models.families.qwen_positions import LearnedPositions
from models.families.qwen_vision_config import VisionConfig
from models.families.qwen_windows import VisionPlan, plan_vision
from models.linear import Linear, Map, packed, stack, take_linear
from models.weights import Weights

_EPS = 1e-6
_NUM_PLANS = 8
"""Sizes of pictures whose tables are kept; a table takes a few hundred bytes a patch."""


class VisionBlock(NamedTuple):
    """One layer. qkv: queries and keys with the pairs that turn together side by side."""

    norm1: Map
    qkv: Map
    proj: Map
    norm2: Map
    mlp: Map


class Merger(NamedTuple):
    """The patches of a merged patch become one row. norm_width: of the rows that `norm` sees."""

    norm_width: int
    merged_width: int
    norm: Map
    first: Map
    second: Map

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        """[patches, width] -> [merged patches, out_width]."""
        normed = self.norm(hidden.reshape(-1, self.norm_width))
        return self.second(self.first(normed.reshape(-1, self.merged_width)))


class QwenVision:
    """A tower's weights, taken from `weights` as seen below the tower's prefix.

    values: what a byte means in each channel, float32 [256, 3], a straight line.
    """

    def __init__(self, config: VisionConfig, weights: Weights, values: np.ndarray) -> None:
        self.config = config
        patch = weights.take("patch_embed.proj.weight", shape=(config.width, *config.patch_shape))
        self.dtype = patch.dtype
        bias = weights.take("patch_embed.proj.bias", shape=(config.width,)) if config.patch_bias else None
        self.patch_embed = packed(_still(patch, bias))
        self.positions = _take_positions(config, weights)
        lowest, highest = torch.from_numpy(values[[0, -1]]).repeat(1, math.prod(config.patch_shape[2:]))
        self._offset = lowest.to(patch.device)
        self._scale = ((highest - lowest) / (len(values) - 1)).to(patch.device)
        self.blocks = [_take_block(config, weights.prefixed(f"blocks.{i}.")) for i in range(config.depth)]
        self.merger = _take_merger(config, weights.prefixed("merger."), config.width)
        self.deepstack = {
            layer: _take_merger(
                config, weights.prefixed(f"deepstack_merger_list.{number}."), config.merged_width
            )
            for layer, number in config.deepstack
        }
        self._plan = lru_cache(_NUM_PLANS)(
            lambda grid: plan_vision(grid, config.merge, config.window, config.head_dim, weights.device)
        )

    def __call__(self, patches: torch.Tensor, grid: tuple[int, int, int]) -> torch.Tensor:
        """uint8 [patches, patch * patch * 3] -> [patches / merge², output_width], in reading order.

        A row holds what comes after the last layer, then what comes after each layer of `deepstack`."""
        plan = self._plan(grid)
        pixels = patches.float().mul_(self._scale).add_(self._offset)
        hidden = self.patch_embed(pixels.to(self.dtype))
        if self.positions is not None:
            hidden += self.positions(*grid[1:]).to(self.dtype)
        unit = self.config.merge**2
        hidden = hidden.unflatten(0, (-1, unit))[plan.order].flatten(0, 1)
        deep: list[torch.Tensor] = []
        for index, block in enumerate(self.blocks):
            runs = plan.whole if index in self.config.full_layers else plan.windows
            hidden = self._attention(block, block.norm1(hidden), plan, runs).add_(hidden)
            hidden = block.mlp(block.norm2(hidden)).add_(hidden)
            if index in self.deepstack:
                deep.append(self.deepstack[index](hidden))
        return torch.cat((self.merger(hidden), *deep), dim=-1)[plan.inverse]

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


def _still(patch: torch.Tensor, bias: torch.Tensor | None) -> Linear:
    """The embedding [width, channels, frames, patch, patch] where frames are alike; channels come last."""
    return Linear(patch.float().sum(2).permute(0, 2, 3, 1).flatten(1).to(patch.dtype), bias)


def _take_block(config: VisionConfig, weights: Weights) -> VisionBlock:
    width = config.width
    if config.split_qkv:
        qkv = stack(*(take_linear(weights, f"attn.{name}", width, width) for name in "qkv"))
    else:
        qkv = take_linear(weights, "attn.qkv", width, 3 * width)
    return VisionBlock(
        norm1=_take_norm(config, weights, "norm1", width),
        qkv=packed(_with_pairs_together(config, qkv)),
        proj=packed(take_linear(weights, "attn.proj", width, width)),
        norm2=_take_norm(config, weights, "norm2", width),
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
        gate = packed(take_linear(weights, "mlp.gate_proj", width, inner), config.activation)
        up = packed(take_linear(weights, "mlp.up_proj", width, inner))
        down = packed(take_linear(weights, "mlp.down_proj", inner, width))
        return lambda x: down(gate(x).mul_(up(x)))
    first = packed(take_linear(weights, f"mlp.{config.names.mlp_in}", width, inner), config.activation)
    second = packed(take_linear(weights, f"mlp.{config.names.mlp_out}", inner, width))
    return lambda x: second(first(x))


def _take_merger(config: VisionConfig, weights: Weights, norm_width: int) -> Merger:
    """weights: as seen below the merger's prefix."""
    names, merged = config.names, config.merged_width
    return Merger(
        norm_width,
        merged,
        _take_norm(config, weights, names.merger_norm, norm_width),
        packed(take_linear(weights, names.merger_in, merged, merged), "gelu"),
        packed(take_linear(weights, names.merger_out, merged, config.out_width)),
    )


def _take_positions(config: VisionConfig, weights: Weights) -> LearnedPositions | None:
    if not config.num_positions:
        return None
    table = weights.take("pos_embed.weight", shape=(config.num_positions, config.width))
    return LearnedPositions(table, math.isqrt(config.num_positions), config.merge)


def _take_norm(config: VisionConfig, weights: Weights, name: str, width: int) -> Map:
    shape = (width,)
    weight = weights.take(f"{name}.weight", shape=shape)
    if config.gated:
        return lambda x: F.rms_norm(x, shape, weight, _EPS)
    bias = weights.take(f"{name}.bias", shape=shape)
    return lambda x: F.layer_norm(x, shape, weight, bias, _EPS)
