"""The layers of Qwen's gated vision towers on the C library: a decoder's, but in both directions.

A picture's keys and values lie in pages of its own, which every layer overwrites.
"""

import numpy as np
import torch
from torch.nn.functional import pad

from engine.native.layers import NativeLayers, NotFusable, Turns, require_whole_vectors
from engine.native.library import DTYPES, CHeads, CSight, Library, type_code
from engine.native.packing import LANES
from kvcache.sequence import BLOCK_SIZE
from models.decoder import LayerWeights
from models.encoder_attention import Runs
from models.families.qwen_blocks import EPS, BlockWeights
from models.families.qwen_vision import QwenVision
from models.families.qwen_windows import VisionPlan, vision_frequencies

WHOLE, WINDOWS = 0, 1
"""The sights of a step: what rows see in layers that attend over the whole picture, and in the others."""


class NativeTower:
    """`FusedBlocks` of a tower, whose published weights it takes.

    NotFusable where the C kernels don't do it.
    """

    def __init__(self, tower: QwenVision, library: Library) -> None:
        config = tower.config
        if not config.gated or config.activation != "silu" or config.deepstack:
            raise NotFusable("layer norms, plain MLPs or rows after layers in between")
        if tower.dtype not in DTYPES:
            raise NotFusable(f"a tower of {tower.dtype}")
        heads, dim = config.num_heads, config.head_dim
        require_whole_vectors(hidden_size=config.width, head_dim=dim)
        layers = []
        while tower.published:  # one by one: each frees what it replaces
            layers.append(_layer(tower.published.pop(0)))
        frequencies = vision_frequencies(dim)
        self._layers = NativeLayers(
            library,
            CHeads(heads, heads, dim, type_code(tower.dtype), dim**-0.5),
            layers,
            [WHOLE if index in config.full_layers else WINDOWS for index in range(config.depth)],
            EPS,
            Turns(frequencies.repeat(2), torch.arange(2).repeat_interleave(len(frequencies))),
        )
        self._depth = config.depth

    def run(self, hidden: torch.Tensor, plan: VisionPlan) -> torch.Tensor:
        rows, width = hidden.shape
        num_pages = -(-rows // BLOCK_SIZE)
        keys, values = hidden.new_empty(2, num_pages * BLOCK_SIZE * width)
        self._layers.set_pages([keys] * self._depth, [values] * self._depth)
        sights = [_Sight(runs, num_pages) for runs in (plan.whole, plan.windows)]
        slots = np.arange(rows, dtype=np.int64)
        return self._layers.run(hidden, plan.places, slots, [sight.struct for sight in sights])


class _Sight:
    """Every row of a run sees all of it."""

    def __init__(self, runs: Runs, num_pages: int) -> None:
        sizes = np.concatenate([np.full(count, size, dtype=np.int32) for count, size in runs])
        ends = np.cumsum(sizes, dtype=np.int32)
        firsts, untils = np.repeat(ends - sizes, sizes), np.repeat(ends, sizes)
        self._kept = np.arange(num_pages, dtype=np.int32), np.zeros_like(firsts), firsts, untils
        self.struct = CSight(*(array.ctypes.data for array in self._kept), len(firsts))


def _layer(block: BlockWeights) -> LayerWeights:
    """As a decoder has it. The MLP gets zeros up to whole vectors, which change no sum."""
    gate, up = block.gate, block.up
    assert gate is not None
    missing = -len(up.weight) % LANES
    gate_up = [pad(linear.weight, (0, 0, 0, missing)) for linear in (gate, up)]
    biases = [pad(linear.bias, (0, missing)) for linear in (gate, up) if linear.bias is not None]
    return LayerWeights(
        input_norm=block.norm1.weight,
        qkv=block.qkv.weight,
        qkv_bias=block.qkv.bias,
        q_norm=None,
        k_norm=None,
        o=block.proj.weight,
        o_bias=block.proj.bias,
        post_norm=block.norm2.weight,
        gate_up=torch.cat(gate_up),
        gate_up_bias=torch.cat(biases) if biases else None,
        down=pad(block.down.weight, (0, missing)),
        down_bias=block.down.bias,
    )
