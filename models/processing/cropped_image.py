"""Pictures as CLIP-shaped encoders take them: scaled to a square's shorter side, and its middle cut out.

Pixels stay bytes until the encoder has them. With `values` in their place they equal, bit for bit,
transformers' `CLIPImageProcessor` with its Pillow back end. Knows nothing of text.
"""

from typing import Any

import numpy as np
from PIL import Image

from models.checkpoint import CheckpointError
from models.processing.base import MediaError, PreparedMedia
from models.processing.image import MAX_ASPECT_RATIO, normalised_values


class CroppedImages:
    """side: of the square that the encoder takes, in pixels. values, settings: as in `PatchedImages`.

    CheckpointError where the settings (content of preprocessor_config.json) give pictures of another size.
    """

    def __init__(self, config: dict[str, Any], side: int) -> None:
        self.side = side
        size, crop = config.get("size", 224), config.get("crop_size", 224)
        self._shortest: int | None = size if isinstance(size, int) else size.get("shortest_edge")
        self._exact = None if self._shortest else _pair(size)
        made = _pair(crop) if config.get("do_center_crop", True) else self._exact
        if made != (side, side) or not config.get("do_resize", True):
            raise CheckpointError(f"Pictures prepared for another size than {side}x{side} are not supported")
        self._resample = Image.Resampling(config.get("resample", Image.Resampling.BICUBIC))
        self.values = normalised_values(config)
        self.settings = {
            "size": [self._shortest, self._exact, side],
            "resample": int(self._resample),
            "values": self.values[[0, -1]].tolist(),
        }

    def check(self, width: int, height: int) -> None:
        """MediaError for a picture so narrow that its middle shows nothing, and is cut from a long strip."""
        if min(width, height) < 1 or max(width, height) > MAX_ASPECT_RATIO * min(width, height):
            raise MediaError(
                f"The image of {width}x{height} pixels is too narrow for this model: "
                f"one side may be at most {MAX_ASPECT_RATIO} times the other.",
                "image_too_small",
            )

    def prepare(self, image: Image.Image) -> PreparedMedia:
        """pixels: uint8 [side, side, 3]; black where the picture is smaller."""
        self.check(*image.size)
        rgb = image if image.mode == "RGB" else image.convert("RGB")
        size = self._scaled(*rgb.size)
        pixels = np.asarray(rgb if rgb.size == size else rgb.resize(size, self._resample))
        for axis in (0, 1):
            pixels = _middle(pixels, axis, self.side)
        return {"pixels": np.ascontiguousarray(pixels)}

    def _scaled(self, width: int, height: int) -> tuple[int, int]:
        if self._exact:
            return self._exact
        shortest = self._shortest or self.side
        longest = int(shortest * max(width, height) / min(width, height))
        return (shortest, longest) if width <= height else (longest, shortest)


def _pair(size: Any) -> tuple[int, int]:
    """(width, height), as published: one number for both, or each by name."""
    return (size, size) if isinstance(size, int) else (size["width"], size["height"])


def _middle(pixels: np.ndarray, axis: int, size: int) -> np.ndarray:
    """`size` rows or columns around the middle, rounded as the reference rounds."""
    spare = pixels.shape[axis] - size
    if spare >= 0:
        return np.take(pixels, range(spare // 2, spare // 2 + size), axis)
    widths = [(0, 0)] * pixels.ndim
    widths[axis] = (-(spare // 2), -spare + spare // 2)
    return np.pad(pixels, widths)
