"""The vision tower of the Qwen-VL families: patches in, one row for each merged patch out.

Qwen2-VL attends over the whole picture; later models in a few layers, and within windows in the rest.
Knows nothing of pixels' preparation, of tokens, or of the language model. One picture at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from models.checkpoint import CheckpointError
from models.families.qwen_windows import VisionPlan, plan_vision
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
    window: int
    full_layers: frozenset[int]

    @classmethod
    def plain(cls, vision: Any) -> "VisionConfig":
        """vision: the vision part of a Qwen2-VL configuration."""
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
    def windowed(cls, vision: Any, split_qkv: bool = False) -> "VisionConfig":
        """vision: the vision part of a Qwen2.5 configuration. split_qkv: q, k, v published apart (Omni)."""
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
            split_qkv=split_qkv,
            window=vision.window_size // vision.spatial_merge_size // vision.patch_size,
            full_layers=frozenset(vision.fullatt_block_indexes),
        )

    @property
    def head_dim(self) -> int:
        return self.width // self.num_heads


class Linear(NamedTuple):
    weight: torch.Tensor
    bias: torch.Tensor | None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


class VisionBlock(NamedTuple):
    """One layer. up: gate and up stacked where the MLP is gated."""

    norm1: Callable[[torch.Tensor], torch.Tensor]
    qkv: Linear
    proj: Linear
    norm2: Callable[[torch.Tensor], torch.Tensor]
    up: Linear
    down: Linear


class QwenVision:
    """A tower's weights, taken from `weights` as seen below the tower's prefix."""

    def __init__(self, config: VisionConfig, weights: Weights) -> None:
        self.config = config
        merged = config.width * config.merge**2
        patch = weights.take("patch_embed.proj.weight", shape=(config.width, *config.patch_shape))
        self.patch_embed = Linear(patch.flatten(1), None)
        self.blocks = [_take_block(config, weights.prefixed(f"blocks.{i}.")) for i in range(config.depth)]
        self.merger_norm = _take_norm(config, weights, "merger.ln_q")
        self.merger_in = take_linear(weights, "merger.mlp.0", merged, merged)
        self.merger_out = take_linear(weights, "merger.mlp.2", merged, config.out_width)
        self._plan = lru_cache(_NUM_PLANS)(
            lambda grid: plan_vision(grid, config.merge, config.window, config.head_dim, weights.device)
        )

    def __call__(self, pixel_values: torch.Tensor, grid: tuple[int, int, int]) -> torch.Tensor:
        """[patches, patch elements] of one picture -> [patches / merge², out_width], in reading order."""
        plan = self._plan(grid)
        hidden = self.patch_embed(pixel_values.to(self.patch_embed.weight.dtype))
        unit = self.config.merge**2
        hidden = hidden.unflatten(0, (-1, unit))[plan.order].flatten(0, 1)
        for index, block in enumerate(self.blocks):
            runs = plan.whole if index in self.config.full_layers else plan.windows
            hidden = hidden + self._attention(block, block.norm1(hidden), plan, runs)
            hidden = hidden + self._mlp(block, block.norm2(hidden))
        merged = self.merger_norm(hidden).reshape(len(plan.order), -1)
        return self.merger_out(F.gelu(self.merger_in(merged)))[plan.inverse]

    def _attention(
        self, block: VisionBlock, x: torch.Tensor, plan: VisionPlan, runs: list[tuple[int, int]]
    ) -> torch.Tensor:
        qkv = block.qkv(x).unflatten(-1, (3, self.config.num_heads, self.config.head_dim))
        turned = _turn(qkv[:, :2], plan.cos, plan.sin)
        q, k, v = turned[:, 0], turned[:, 1], qkv[:, 2]
        return block.proj(attend_in_runs(q, k, v, runs))

    def _mlp(self, block: VisionBlock, x: torch.Tensor) -> torch.Tensor:
        if self.config.gated:
            gate, up = block.up(x).chunk(2, dim=-1)
            return block.down(F.silu(gate) * up)
        x = block.up(x)
        return block.down(x * torch.sigmoid(1.702 * x))


def attend_in_runs(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, runs: list[tuple[int, int]]
) -> torch.Tensor:
    """[rows, heads, dim] each -> [rows, width]: attention within runs, consecutive (how many, rows each)."""
    outs, start = [], 0
    for count, length in runs:
        rows = slice(start, start + count * length)
        a, b, c = (x[rows].unflatten(0, (count, length)).transpose(1, 2) for x in (q, k, v))
        outs.append(F.scaled_dot_product_attention(a, b, c).transpose(1, 2).reshape(count * length, -1))
        start = rows.stop
    return outs[0] if len(outs) == 1 else torch.cat(outs)


def take_linear(weights: Weights, name: str, inputs: int, outputs: int) -> Linear:
    weight = weights.take(f"{name}.weight", shape=(outputs, inputs))
    return Linear(weight, weights.take(f"{name}.bias", shape=(outputs,)))


def stack(*parts: Linear) -> Linear:
    """Several maps of the same input as one, their outputs one after another."""
    biases = [part.bias for part in parts if part.bias is not None]
    return Linear(torch.cat([part.weight for part in parts]), torch.cat(biases))


def _turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate the pairs (i, i + dim / 2) of x [rows, ..., dim] in float32; cos, sin [rows, 1, 1, dim / 2]."""
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def _take_block(config: VisionConfig, weights: Weights) -> VisionBlock:
    width, inner = config.width, config.mlp_width
    if config.split_qkv:
        qkv = stack(*(take_linear(weights, f"attn.{name}", width, width) for name in "qkv"))
    else:
        qkv = take_linear(weights, "attn.qkv", width, 3 * width)
    if config.gated:
        up = stack(*(take_linear(weights, f"mlp.{name}_proj", width, inner) for name in ("gate", "up")))
        down = take_linear(weights, "mlp.down_proj", inner, width)
    else:
        up, down = (
            take_linear(weights, "mlp.fc1", width, inner),
            take_linear(weights, "mlp.fc2", inner, width),
        )
    proj = take_linear(weights, "attn.proj", width, width)
    norm1, norm2 = _take_norm(config, weights, "norm1"), _take_norm(config, weights, "norm2")
    return VisionBlock(norm1, qkv, proj, norm2, up, down)


def _take_norm(config: VisionConfig, weights: Weights, name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    shape = (config.width,)
    weight = weights.take(f"{name}.weight", shape=shape)
    if config.gated:
        return lambda x: F.rms_norm(x, shape, weight, _EPS)
    bias = weights.take(f"{name}.bias", shape=shape)
    return lambda x: F.layer_norm(x, shape, weight, bias, _EPS)


def _patch_shape(vision: Any) -> tuple[int, int, int, int]:
    return vision.in_channels, vision.temporal_patch_size, vision.patch_size, vision.patch_size


def _require_activation(found: str, wanted: str) -> None:
    if found != wanted:
        raise CheckpointError(
            f"A vision tower with the activation {found!r} instead of {wanted!r} is not supported"
        )
