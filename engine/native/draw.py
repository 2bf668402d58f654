"""`engine.draw.draw` in C: a few passes over a row, where torch's operations take a dozen and sort."""

from collections.abc import Sequence

import numpy as np
import torch

from engine.messages import SamplingParams
from engine.native.library import CDraw, Library


class NativeDraw:
    """A `Drawer` for rows on the CPU."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def __call__(
        self, rows: Sequence[torch.Tensor], parameters: Sequence[SamplingParams], randoms: Sequence[float]
    ) -> np.ndarray:
        rows = [row.contiguous() for row in rows]
        draws = [
            CDraw(row.data_ptr(), p.top_p, p.min_p, random, p.temperature, p.top_k)
            for row, p, random in zip(rows, parameters, randoms, strict=True)
        ]
        return self._library.draw_rows(draws, len(rows[0]))
