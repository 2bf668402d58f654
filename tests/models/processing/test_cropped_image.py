"""Cropped squares against transformers' CLIPImageProcessor with its Pillow back end."""

import numpy as np
import pytest
from PIL import Image
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from models.checkpoint import CheckpointError
from models.processing.base import MediaError
from models.processing.cropped_image import CroppedImages
from models.processing.image import MAX_ASPECT_RATIO

SETTINGS = {
    "published": {"size": {"shortest_edge": 70}, "crop_size": {"height": 70, "width": 70}},
    "old spellings": {"size": 70, "crop_size": 70, "resample": 2},
    "scaled to the square": {"size": {"height": 70, "width": 70}, "do_center_crop": False},
    "cut from more": {"size": {"shortest_edge": 91}, "crop_size": {"height": 70, "width": 70}},
    "smaller than the square": {"size": {"shortest_edge": 33}, "crop_size": {"height": 70, "width": 70}},
    "other values": {
        "size": {"shortest_edge": 70},
        "crop_size": {"height": 70, "width": 70},
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.2, 0.3, 0.4],
        "rescale_factor": 1 / 127,
    },
}
SIZES = [(70, 70), (100, 84), (63, 211), (211, 64), (20, 31), (1, 40), (71, 70)]


def picture(width: int, height: int) -> Image.Image:
    rng = np.random.default_rng(width * 1000 + height)
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SETTINGS)
def test_equals_the_reference_bit_for_bit(name: str, size: tuple[int, int]) -> None:
    reference = CLIPImageProcessorPil(**SETTINGS[name])
    own = CroppedImages(SETTINGS[name], 70)
    pixels = own.prepare(picture(*size))["pixels"]
    assert pixels.dtype == np.uint8
    values = np.take_along_axis(own.values, pixels.reshape(-1, 3), axis=0).reshape(pixels.shape)
    expected = reference(images=[picture(*size)], return_tensors="np")["pixel_values"][0]
    np.testing.assert_array_equal(values.transpose(2, 0, 1), expected)


def test_every_mode_becomes_rgb() -> None:
    own = CroppedImages(SETTINGS["published"], 70)
    grey = picture(80, 90).convert("L")
    np.testing.assert_array_equal(own.prepare(grey)["pixels"], own.prepare(grey.convert("RGB"))["pixels"])


def test_a_strip_is_refused_before_it_is_scaled() -> None:
    own = CroppedImages(SETTINGS["published"], 70)
    assert own.prepare(Image.new("RGB", (MAX_ASPECT_RATIO, 1)))["pixels"].shape == (70, 70, 3)
    for size in ((MAX_ASPECT_RATIO + 1, 1), (1, MAX_ASPECT_RATIO + 1)):
        with pytest.raises(MediaError) as refusal:
            own.prepare(Image.new("RGB", size))
        assert refusal.value.code == "image_too_small"


@pytest.mark.parametrize(
    "config",
    [
        {"size": 70, "crop_size": 84},
        {"size": {"shortest_edge": 70}, "do_center_crop": False},
        {"size": {"height": 70, "width": 84}, "do_center_crop": False},
        {"size": 70, "crop_size": 70, "do_resize": False},
        {},
    ],
)
def test_settings_that_give_another_size_are_refused(config: dict) -> None:
    with pytest.raises(CheckpointError, match="70x70"):
        CroppedImages(config, 70)
