"""LLaVA without its weights: every picture becomes one square, and so takes the same number of tokens."""

from typing import Any

from PIL import Image

from models.checkpoint import Checkpoint, CheckpointError
from models.processing.base import MediaLayout, PreparedMedia
from models.processing.cropped_image import CroppedImages
from models.processing.fingerprint import fingerprint
from models.processing.image import image_settings
from models.processing.text import Marked, TextProcessing

_TOWER = "clip_vision_model"
_DEFAULT_VISION = {"image_size": 336, "patch_size": 14}


class LlavaProcessing(TextProcessing):
    """`Processing` of LLaVA. A placeholder for each row that the tower gives; none of them is text.

    layout: of every picture. The tower and what is selected of its rows decide it: the published processor's
    own fields (`patch_size`, `num_additional_image_tokens`) can only say the same, or the model fails.
    """

    kinds = frozenset({"image"})
    completes_prompts = True

    def __init__(
        self, images: CroppedImages, layout: MediaLayout, image_token: str, image_token_id: int
    ) -> None:
        self.images = images
        self.layout = layout
        self.placeholders = {"image": Marked(image_token, image_token_id)}
        self.fingerprint = fingerprint(self, images.settings)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "LlavaProcessing":
        """CheckpointError for a tower of another kind, whose pictures are prepared in another way."""
        config = checkpoint.config
        vision: dict[str, Any] = config.get("vision_config") or _DEFAULT_VISION
        tower = vision.get("model_type", _TOWER)
        if tower != _TOWER:
            raise CheckpointError(f"A vision tower of the type {tower!r} is not supported")
        side = vision.get("image_size", 224)
        patches = side // vision.get("patch_size", 32)
        has_class_row = config.get("vision_feature_select_strategy", "default") == "full"
        processor = checkpoint.read_json("processor_config.json") or {}
        return cls(
            CroppedImages(image_settings(checkpoint), side),
            MediaLayout(patches**2 + has_class_row, (1, patches, patches)),
            processor.get("image_token") or checkpoint.tokenizer_config.get("image_token", "<image>"),
            config.get("image_token_index", config.get("image_token_id", 32000)),
        )

    def image_layout(self, width: int, height: int, options: str = "") -> MediaLayout:
        """The same for all: there is no smaller square to choose."""
        self.images.check(width, height)
        return self.layout

    def prepare_image(self, image: Image.Image, options: str = "") -> PreparedMedia:
        """pixels: see `CroppedImages.prepare`."""
        return self.images.prepare(image)
