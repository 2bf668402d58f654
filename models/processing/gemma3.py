"""Gemma 3 without its weights: every picture becomes one square, and so takes the same number of tokens."""

from typing import Any, NamedTuple

from PIL import Image

from models.checkpoint import Checkpoint, CheckpointError
from models.processing.base import MediaLayout, Placeholder, PreparedMedia
from models.processing.cropped_image import CroppedImages
from models.processing.fingerprint import fingerprint
from models.processing.image import image_settings
from models.processing.text import Marked, TextProcessing

_DEFAULT_IMAGES = {
    "size": 224,
    "resample": Image.Resampling.BILINEAR,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}


class Squares(NamedTuple):
    """grid: patches on a picture's side. pooled: how many of them, along each side, are one token."""

    grid: int
    pooled: int

    @property
    def layout(self) -> MediaLayout:
        return MediaLayout((self.grid // self.pooled) ** 2, (1, self.grid, self.grid))


class Tokens(NamedTuple):
    """Ids around and within a picture; marker: what templates write for one, and the text of `begin`."""

    marker: str
    begin: int
    soft: int
    end: int


class Gemma3Processing(TextProcessing):
    """`Processing` of Gemma 3. A picture's rows see each other in both directions."""

    kinds = frozenset({"image"})
    bidirectional_kinds = frozenset({"image"})
    completes_prompts = True
    media_margin = "\n\n"

    def __init__(self, images: CroppedImages, squares: Squares, tokens: Tokens) -> None:
        self.images, self.squares, self.tokens = images, squares, tokens
        self.placeholders = {"image": Marked(tokens.marker, tokens.soft)}
        self.fingerprint = fingerprint(self, images.settings)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "Gemma3Processing":
        """CheckpointError for pictures that are cut up ("pan and scan") or pooled to another number of tokens
        than the checkpoint says."""
        config = checkpoint.config
        vision: dict[str, Any] = config.get("vision_config") or {}
        side = vision.get("image_size", 224)
        published = {key: value for key, value in image_settings(checkpoint).items() if value is not None}
        if published.get("do_pan_and_scan"):
            raise CheckpointError("Pictures that are cut into several (do_pan_and_scan) are not supported")
        settings = {**_DEFAULT_IMAGES, **published, "do_center_crop": False}
        return cls(
            CroppedImages(settings, side),
            _squares(side // vision.get("patch_size", 16), config.get("mm_tokens_per_image", 256)),
            Tokens(
                checkpoint.tokenizer_config.get("boi_token", "<start_of_image>"),
                config.get("boi_token_index", 255_999),
                config.get("image_token_index", 262_144),
                config.get("eoi_token_index", 256_000),
            ),
        )

    def image_layout(self, width: int, height: int, options: str = "") -> MediaLayout:
        """The same for all: there is no smaller square to choose."""
        self.images.check(width, height)
        return self.squares.layout

    def prepare_image(self, image: Image.Image, options: str = "") -> PreparedMedia:
        """pixels: see `CroppedImages.prepare`."""
        return self.images.prepare(image)

    def placeholder(self, kind: str, layout: MediaLayout) -> Placeholder:
        if kind != "image":
            return super().placeholder(kind, layout)
        count, tokens = layout.num_tokens, self.tokens
        return Placeholder([tokens.begin, *[tokens.soft] * count, tokens.end], [(1, count + 1)])


def _squares(grid: int, num_tokens: int) -> Squares:
    side = int(num_tokens**0.5)
    squares = Squares(grid, grid // side if side else 0)
    if not squares.pooled or squares.layout.num_tokens != num_tokens:
        raise CheckpointError(f"{grid}x{grid} patches pooled to {num_tokens} tokens are not supported")
    return squares
