"""Qwen2-VL and Qwen2.5-VL without their weights: pictures, placeholders and three-axis (M-RoPE) positions."""

from collections.abc import Sequence

import numpy as np
from PIL import Image

from kvcache.spans import MediaSpan
from models.checkpoint import Checkpoint
from models.processing.base import MediaLayout, PositionTable, PreparedMedia
from models.processing.fingerprint import fingerprint
from models.processing.image import LOW_DETAIL, PatchedImages
from models.processing.text import Marked, TextProcessing


class Qwen2VLProcessing(TextProcessing):
    """`Processing` of both. A placeholder for each merged patch; the template writes the brackets."""

    kinds = frozenset({"image"})
    image_options = frozenset({LOW_DETAIL})

    def __init__(self, images: PatchedImages, image_token: str, image_token_id: int) -> None:
        self.images = images
        self.placeholders = {"image": Marked(image_token, image_token_id)}
        self.fingerprint = fingerprint(self, images.settings)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "Qwen2VLProcessing":
        return cls(
            PatchedImages.from_checkpoint(checkpoint),
            checkpoint.tokenizer_config.get("image_token", "<|image_pad|>"),
            checkpoint.config.get("image_token_id", 151655),
        )

    def image_layout(self, width: int, height: int, options: str = "") -> MediaLayout:
        return self.images.layout(width, height, options)

    def prepare_image(self, image: Image.Image, options: str = "") -> PreparedMedia:
        """patches: see `PatchedImages.prepare`."""
        return self.images.prepare(image, options)

    def positions(
        self, num_tokens: int, spans: Sequence[MediaSpan], items: Sequence[tuple[str, MediaLayout]]
    ) -> PositionTable:
        return mrope_positions(num_tokens, spans, items, self.images.merge_size)


def mrope_positions(
    num_tokens: int, spans: Sequence[MediaSpan], items: Sequence[tuple[str, MediaLayout]], merge_size: int
) -> PositionTable:
    """Positions on the axes (time, row, column): int64 [3, num_tokens].

    Text and sound count on, equal on all axes. A picture starts where the text before it ended, spreads over
    its rows and columns at one moment, and text goes on after the longer side (arXiv 2409.12191).
    """
    ids = np.empty((3, num_tokens), np.int64)
    done, position = 0, 0
    pictures = ((s, layout) for s, (kind, layout) in zip(spans, items, strict=True) if kind == "image")
    for span, layout in sorted(pictures, key=lambda picture: picture[0].start):
        position = _count_on(ids[:, done : span.start], position)
        _, rows, columns = (side // merge_size for side in layout.grid)
        block = ids[:, span.start : span.end]
        block[0] = position
        block[1] = np.arange(position, position + rows).repeat(columns)
        block[2] = np.tile(np.arange(position, position + columns), rows)
        done, position = span.end, position + max(rows, columns)
    return PositionTable(ids, _count_on(ids[:, done:], position))


def _count_on(ids: np.ndarray, position: int) -> int:
    """Fill ids [3, n] with position, position + 1, ... on all axes; returns the next position."""
    ids[:] = np.arange(position, position + ids.shape[1])
    return position + ids.shape[1]
