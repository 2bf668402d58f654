"""SigLIP's vision tower: a square of pixels in, one row for each patch out. Knows nothing of tokens."""

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


class SiglipVision:
    """vision: the tower's transformers configuration. weights: as seen below the tower's prefix. values: what
    a byte means in each channel, [256, 3].

    CheckpointError for a configuration of another tower.
    """

    def __init__(self, vision: Any, weights: Weights, values: np.ndarray) -> None:
        if vision.model_type != "siglip_vision_model" or vision.num_channels != 3:
            raise CheckpointError(
                f"A vision tower of the type {vision.model_type!r} with {vision.num_channels} channels "
                "is not supported"
            )
        if vision.hidden_act not in ACTIVATIONS:
            raise CheckpointError(f"A vision tower with {vision.hidden_act!r} is not supported")
        self.width, self.grid = vision.hidden_size, vision.image_size // vision.patch_size
        sizes = BlockSizes(
            width=self.width,
            num_heads=vision.num_attention_heads,
            mlp_width=vision.intermediate_size,
            eps=vision.layer_norm_eps,
            activation=vision.hidden_act,
        )
        embeddings = weights.prefixed("embeddings.")
        self.patches = SquarePatches(embeddings, self.width, vision.patch_size, self.grid, values, bias=True)
        self.positions = embeddings.take("position_embedding.weight", shape=(self.grid**2, self.width))
        self.blocks = [
            EncoderBlock(sizes, CLIP, weights.prefixed(f"encoder.layers.{index}."))
            for index in range(vision.num_hidden_layers)
        ]
        self.last_norm = take_norm(weights, "post_layernorm", self.width, sizes.eps)

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """uint8 [side, side, 3] -> [grid * grid, width], in reading order."""
        hidden = self.patches(pixels) + self.positions
        attention = partial(attend_in_runs, runs=[(1, len(hidden))])
        for block in self.blocks:
            hidden = block(hidden, attention)
        return self.last_norm(hidden)
