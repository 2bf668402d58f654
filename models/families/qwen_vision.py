"""The vision tower of the Qwen-VL families: patches in, one row for each merged patch out.

Qwen2-VL and Qwen3-VL attend over the whole picture; Qwen2.5 in a few layers, and within windows in the rest.
Qwen3-VL has learned positions too, and gives out rows after some layers beside those after the last.
Knows nothing of pixels' preparation, of tokens, or of the language model. One still picture at a time.
"""

import math
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
import torch

from models.families.qwen_blocks import VisionBlock, take_block, take_norm
from models.families.qwen_positions import LearnedPositions
from models.families.qwen_vision_config import VisionConfig
from models.families.qwen_windows import VisionPlan, plan_vision
from models.linear import Linear, Map, packed, take_linear
from models.weights import Weights

_NUM_PLANS = 8
"""Sizes of pictures whose tables are kept; a table takes a few hundred bytes a patch."""


class FusedBlocks(Protocol):
    """Runs all layers of a tower at once; installed by the engine where it can, in place of `published`."""

    def run(self, hidden: torch.Tensor, plan: VisionPlan) -> torch.Tensor:
        """[patches, width], in the order of the plan -> hidden after the last layer."""
        ...


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
    `published`: the layers' weights, until the engine takes them for `fused` or the first picture packs them.
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
        self.fused: FusedBlocks | None = None
        self.published = [take_block(config, weights.prefixed(f"blocks.{i}.")) for i in range(config.depth)]
        self._blocks: list[VisionBlock] = []
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
        hidden = self.patch_embed(patches.float().mul_(self._scale).add_(self._offset).to(self.dtype))
        if self.positions is not None:
            hidden += self.positions(*grid[1:]).to(self.dtype)
        unit = self.config.merge**2
        hidden = hidden.unflatten(0, (-1, unit))[plan.order].flatten(0, 1)
        hidden, *deep = self._through_blocks(hidden, plan)
        mergers = [self.deepstack[layer] for layer in sorted(self.deepstack)]
        merged = [self.merger(hidden), *(merger(x) for merger, x in zip(mergers, deep, strict=True))]
        return torch.cat(merged, dim=-1)[plan.inverse]

    def _through_blocks(self, hidden: torch.Tensor, plan: VisionPlan) -> list[torch.Tensor]:
        """Hidden states after the last layer, then those after each layer of `deepstack`."""
        if self.fused is not None:
            return [self.fused.run(hidden, plan)]
        while self.published:  # one by one: each frees what it replaces
            self._blocks.append(VisionBlock.of(self.config, self.published.pop(0)))
        deep = []
        for index, block in enumerate(self._blocks):
            runs = plan.whole if index in self.config.full_layers else plan.windows
            hidden = block(hidden, plan.turns, runs)
            if index in self.deepstack:
                deep.append(hidden)
        return [hidden, *deep]


def _still(patch: torch.Tensor, bias: torch.Tensor | None) -> Linear:
    """The embedding [width, channels, frames, patch, patch] where frames are alike; channels come last."""
    return Linear(patch.float().sum(2).permute(0, 2, 3, 1).flatten(1).to(patch.dtype), bias)


def _take_merger(config: VisionConfig, weights: Weights, norm_width: int) -> Merger:
    """weights: as seen below the merger's prefix."""
    names, merged = config.names, config.merged_width
    return Merger(
        norm_width,
        merged,
        take_norm(config, weights, names.merger_norm, norm_width),
        packed(take_linear(weights, names.merger_in, merged, merged), "gelu"),
        packed(take_linear(weights, names.merger_out, merged, config.out_width)),
    )


def _take_positions(config: VisionConfig, weights: Weights) -> LearnedPositions | None:
    if not config.num_positions:
        return None
    table = weights.take("pos_embed.weight", shape=(config.num_positions, config.width))
    return LearnedPositions(table, math.isqrt(config.num_positions), config.merge)
