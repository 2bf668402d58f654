"""Pictures as the Qwen-VL families take them: scaled to whole patches and cut into them.

Pixels stay bytes until the encoder has them, an eighth of what the reference makes of them. With `values` in
their place they equal, bit for bit, transformers' `Qwen2VLImageProcessor` with its Pillow back end. Knows
nothing of text.
"""

import math
from typing import Any

import numpy as np
from PIL import Image

from models.checkpoint import Checkpoint
from models.processing.base import MediaError, MediaLayout, PreparedMedia

LOW_DETAIL = "detail=low"
LOW_DETAIL_PIXELS = 512 * 512
"""The most pixels that a picture keeps with the option LOW_DETAIL."""

MAX_ASPECT_RATIO = 200
_CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


class PatchedImages:
    """Size rule, resize, patchify and normalisation of one checkpoint. Immutable, so usable from any thread.

    values: what a byte means in each channel, float32 [256, 3]. settings: a plain dictionary of all that
    decides the result; part of the processor's fingerprint.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        """config: content of preprocessor_config.json. ValueError for what can't give whole patches."""
        size = dict(config.get("size") or {})
        pixels = _first(size, "shortest_edge", "min_pixels"), _first(size, "longest_edge", "max_pixels")
        self.min_pixels: int = config.get("min_pixels") or pixels[0] or 56 * 56
        self.max_pixels: int = config.get("max_pixels") or pixels[1] or 28 * 28 * 1280
        self.patch_size: int = config.get("patch_size") or 14
        self.merge_size: int = config.get("merge_size") or 2
        self.temporal_patch_size: int = config.get("temporal_patch_size") or 2
        if not config.get("do_resize", True):
            raise ValueError("a checkpoint of this family with do_resize off can't give whole patches")
        self._resample = Image.Resampling(config.get("resample", Image.Resampling.BICUBIC))
        self.values = normalised_values(config)
        self.settings = {
            "pixels": [self.min_pixels, self.max_pixels],
            "patch": [self.patch_size, self.merge_size, self.temporal_patch_size],
            "resample": int(self._resample),
            "values": self.values[[0, -1]].tolist(),
        }

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "PatchedImages":
        return cls(image_settings(checkpoint))

    def layout(self, width: int, height: int, options: str = "") -> MediaLayout:
        """Grid in patches and number of merged patches. MediaError where no size within the rules exists."""
        columns, rows = (side // self.patch_size for side in self.target_size(width, height, options))
        return MediaLayout(num_tokens=rows * columns // self.merge_size**2, grid=(1, rows, columns))

    def target_size(self, width: int, height: int, options: str = "") -> tuple[int, int]:
        """(width, height) after scaling: multiples of a merged patch, within the pixel limits."""
        if min(width, height) < 1 or max(width, height) > MAX_ASPECT_RATIO * min(width, height):
            raise MediaError(
                f"The image of {width}x{height} pixels is too narrow for this model: "
                f"one side may be at most {MAX_ASPECT_RATIO} times the other.",
                "image_too_small",
            )
        min_pixels, max_pixels = self._pixel_limits(options)
        unit = self.patch_size * self.merge_size
        sides = (width, height)
        rounded = [round(side / unit) * unit for side in sides]
        if math.prod(rounded) > max_pixels:
            shrink = math.sqrt((height * width) / max_pixels)
            rounded = [max(unit, math.floor(side / shrink / unit) * unit) for side in sides]
        elif math.prod(rounded) < min_pixels:
            stretch = math.sqrt(min_pixels / (height * width))
            rounded = [math.ceil(side * stretch / unit) * unit for side in sides]
        if not all(rounded):
            raise MediaError(
                f"The image of {width}x{height} pixels is smaller than this model's {unit}-pixel patches.",
                "image_too_small",
            )
        return rounded[0], rounded[1]

    def prepare(self, image: Image.Image, options: str = "") -> PreparedMedia:
        """patches: uint8 [patches, patch * patch * 3], channels last, those of a merged patch together."""
        width, height = self.target_size(image.width, image.height, options)
        rgb = image if image.mode == "RGB" else image.convert("RGB")
        resized = rgb if rgb.size == (width, height) else rgb.resize((width, height), self._resample)
        return {"patches": self._patchify(np.asarray(resized))}

    def _patchify(self, pixels: np.ndarray) -> np.ndarray:
        patch, merge = self.patch_size, self.merge_size
        rows, columns = pixels.shape[0] // patch, pixels.shape[1] // patch
        split = pixels.reshape(rows // merge, merge, patch, columns // merge, merge, patch, 3)
        return split.transpose(0, 3, 1, 4, 2, 5, 6).reshape(rows * columns, -1)

    def _pixel_limits(self, options: str) -> tuple[int, int]:
        if options not in ("", LOW_DETAIL):
            raise ValueError(f"unknown image options {options!r}")
        if not options:
            return self.min_pixels, self.max_pixels
        max_pixels = min(self.max_pixels, LOW_DETAIL_PIXELS)
        return min(self.min_pixels, max_pixels), max_pixels


def image_settings(checkpoint: Checkpoint) -> dict[str, Any]:
    """From where they are published: nested in the processor's file, or in their own."""
    nested = (checkpoint.read_json("processor_config.json") or {}).get("image_processor")
    return nested or checkpoint.read_json("preprocessor_config.json") or {}


def normalised_values(config: dict[str, Any]) -> np.ndarray:
    """What each of the 256 pixel values becomes in each channel: float32 [256, 3].

    Rescaled in float64 and normalised in float32, the reference's own order of rounding."""
    values = np.repeat(np.arange(256, dtype=np.float64)[:, None], 3, axis=1)
    if config.get("do_rescale", True):
        values *= config.get("rescale_factor", 1 / 255)
    values = values.astype(np.float32)
    if config.get("do_normalize", True):
        mean = np.asarray(config.get("image_mean", _CLIP_MEAN), np.float32)
        std = np.asarray(config.get("image_std", _CLIP_STD), np.float32)
        values = (values - mean) / std
    return np.ascontiguousarray(values)


def _first(size: dict[str, Any], *names: str) -> int | None:
    return next((size[name] for name in names if size.get(name)), None)
