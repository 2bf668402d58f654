"""CLIP's vision tower: a square of pixels in, one row for each patch out, after a first one for the whole.

Gives the rows after chosen layers, and has no more layers than these need. Knows nothing of tokens.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from models.activations import ACTIVATIONS
from models.checkpoint import CheckpointError
from models.encoder_attention import attend_in_runs
from models.encoder_block import CLIP, BlockSizes, EncoderBlock, take_norm
from models.families.square_patches import SquarePatches
from models.weights import Weights


@dataclass(frozen=True)
class ClipConfig:
    """grid: patches on a side. outputs: after how many layers rows are given out, 0 for before the first."""

    blocks: BlockSizes
    patch_size: int
    grid: int
    outputs: tuple[int, ...]

    @classmethod
    def of(cls, vision: Any, layers: int | list[int]) -> "ClipConfig":
        """vision: the tower's transformers configuration. layers: as its list of hidden states is indexed."""
        if vision.model_type != "clip_vision_model" or vision.num_channels != 3:
            raise CheckpointError(
                f"A vision tower of the type {vision.model_type!r} with {vision.num_channels} channels "
                "is not supported"
            )
        if vision.hidden_act not in ACTIVATIONS:
            raise CheckpointError(f"A vision tower with {vision.hidden_act!r} is not supported")
        states = range(vision.num_hidden_layers + 1)
        return cls(
            BlockSizes(
                width=vision.hidden_size,
                num_heads=vision.num_attention_heads,
                mlp_width=vision.intermediate_size,
                eps=vision.layer_norm_eps,
                activation=vision.hidden_act,
            ),
            patch_size=vision.patch_size,
            grid=vision.image_size // vision.patch_size,
            outputs=tuple(states[layer] for layer in ([layers] if isinstance(layers, int) else layers)),
        )


class ClipVision:
    """weights: as seen below the tower's prefix. values: what a byte means in each channel, [256, 3]."""

    def __init__(self, config: ClipConfig, weights: Weights, values: np.ndarray) -> None:
        self.config = config
        width, embeddings = config.blocks.width, weights.prefixed("embeddings.")
        self.patches = SquarePatches(embeddings, width, config.patch_size, config.grid, values)
        positions = (config.grid**2 + 1, width)
        self.positions = embeddings.take("position_embedding.weight", shape=positions)
        self.class_row = embeddings.take("class_embedding", shape=(width,))
        self.first_norm = take_norm(weights, "pre_layrnorm", width, config.blocks.eps)
        self.blocks = [
            EncoderBlock(config.blocks, CLIP, weights.prefixed(f"encoder.layers.{index}."))
            for index in range(max(config.outputs))
        ]

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """uint8 [side, side, 3] -> [1 + patches, width * number of outputs], in reading order."""
        hidden = torch.cat((self.class_row[None], self.patches(pixels))) + self.positions
        hidden = self.first_norm(hidden)
        states = [hidden]
        attention = partial(attend_in_runs, runs=[(1, len(hidden))])
        for block in self.blocks:
            states.append(block(states[-1], attention))
        return torch.cat([states[output] for output in self.config.outputs], dim=-1)
