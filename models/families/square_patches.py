"""A square of pixels as rows, one for each patch: the first product of CLIP-shaped vision towers."""

import numpy as np
import torch

from models.linear import Linear, packed
from models.weights import Weights


class SquarePatches:
    """grid: patches on a side. values: what a byte means in each channel, float32 [256, 3].

    weights: as seen below the prefix of the embeddings.
    """

    def __init__(
        self, weights: Weights, width: int, patch_size: int, grid: int, values: np.ndarray, bias: bool = False
    ) -> None:
        self.grid, self.patch_size, self.dtype = grid, patch_size, weights.dtype
        shape = (width, 3, patch_size, patch_size)
        kernel = weights.take("patch_embedding.weight", shape=shape).permute(0, 2, 3, 1).flatten(1)
        self._map = packed(
            Linear(kernel, weights.take("patch_embedding.bias", shape=(width,)) if bias else None)
        )
        lowest, highest = torch.from_numpy(values[[0, -1]]).to(weights.device)
        self._offset, self._scale = lowest, (highest - lowest) / (len(values) - 1)

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """uint8 [side, side, 3] -> [grid * grid, width], in reading order; what is left of an incomplete
        patch is cut off."""
        grid, patch = self.grid, self.patch_size
        whole = pixels[: grid * patch, : grid * patch].float() * self._scale + self._offset
        cut = whole.view(grid, patch, grid, patch, 3).transpose(1, 2)
        return self._map(cut.reshape(grid**2, -1).to(self.dtype))
