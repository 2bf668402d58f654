"""What Gemma 3 checkpoints differ in, each against transformers on the same weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

from models.checkpoint import Checkpoint
from models.families.gemma3 import Gemma3Model
from models.interface import EncoderInput
from models.loader import load_model
from models.processing.base import MediaLayout
from models.processing.gemma3 import Gemma3Processing
from models.registry import load_processing
from tests.checkpoints import write_json
from tests.checkpoints_gemma import IMAGES, tiny_gemma3
from tests.proof.gemma_reference import GemmaReference
from tests.proof.prompts import picture


def load(directory: Path, dtype: str = "float32") -> Gemma3Model:
    model = load_model(Checkpoint.open(str(directory)), dtype=dtype)
    assert isinstance(model, Gemma3Model)
    return model


def processing_of(directory: Path, config: dict[str, Any], images: dict[str, Any]) -> Gemma3Processing:
    write_json(directory / "config.json", {"architectures": ["Gemma3ForConditionalGeneration"], **config})
    write_json(directory / "preprocessor_config.json", images)
    processing = load_processing(Checkpoint.open(str(directory)))
    assert isinstance(processing, Gemma3Processing)
    return processing


def encoded(model: Gemma3Model) -> torch.Tensor:
    image = picture(1, 100, 84).image
    layout = model.processing.image_layout(*image.size)
    arrays = {name: torch.from_numpy(a) for name, a in model.processing.prepare_image(image).items()}
    (rows,) = model.encode("image", [EncoderInput(arrays, layout)])
    assert rows.shape == (layout.num_tokens, model.encoding_width)
    return rows


@torch.no_grad()
def expected(directory: Path) -> torch.Tensor:
    reference = GemmaReference(directory)
    pixels = reference.images(images=[picture(1, 100, 84).image], return_tensors="pt")["pixel_values"]
    return reference.model.get_image_features(pixel_values=pixels).pooler_output[0]


@pytest.mark.parametrize(
    "changes",
    [{}, {"hidden_act": "gelu"}, {"layer_norm_eps": 0.1}, {"patch_size": 12}],
    ids=str,
)
def test_encodings_equal_the_reference(changes: dict[str, Any], tmp_path: Path) -> None:
    """Patches of 12 leave some of the picture over, and of the 9 on a side pooling leaves one over."""
    tiny_gemma3(tmp_path, **changes)
    torch.testing.assert_close(encoded(load(tmp_path)), expected(tmp_path), atol=1e-4, rtol=1e-4)


def test_in_bfloat16(tmp_path: Path) -> None:
    tiny_gemma3(tmp_path)
    rows = encoded(load(tmp_path, "bfloat16"))
    assert rows.dtype is torch.bfloat16
    exact = expected(tmp_path)
    assert (rows.float() - exact).norm() < 0.03 * exact.norm()


@pytest.mark.parametrize(
    "names",
    [
        {"vision_tower.": "vision_tower.vision_model."},
        {
            "language_model.model.": "model.language_model.",
            "vision_tower.": "model.vision_tower.",
            "multi_modal_projector.": "model.multi_modal_projector.",
        },
    ],
    ids=["as first published", "as modules are called now"],
)
def test_tensors_by_all_their_names(names: dict[str, str], tmp_path: Path) -> None:
    model = load(tiny_gemma3(tmp_path))
    renamed = {}
    for name, tensor in load_file(tmp_path / "model.safetensors").items():
        prefix = next((prefix for prefix in names if name.startswith(prefix)), "")
        assert prefix or len(names) == 1
        renamed[names.get(prefix, "") + name.removeprefix(prefix)] = tensor
    save_file(renamed, tmp_path / "model.safetensors", metadata={"format": "pt"})
    again = load(tmp_path)
    assert torch.equal(encoded(again), encoded(model))
    assert torch.equal(again.decoder.embedding, model.decoder.embedding)


def test_a_picture_in_the_published_sizes(tmp_path: Path) -> None:
    config = {"vision_config": {"image_size": 896, "patch_size": 14}, "mm_tokens_per_image": 256}
    processing = processing_of(tmp_path, config, {**IMAGES, "size": {"height": 896, "width": 896}})
    layout = processing.image_layout(1200, 800)
    assert layout == MediaLayout(256, (1, 64, 64))
    ids, runs = processing.placeholder("image", layout)
    assert ids == [255_999, *[262_144] * 256, 256_000]
    assert runs == [(1, 257)]


@pytest.mark.parametrize(
    "images",
    [
        IMAGES,
        {"size": {"height": 112, "width": 112}},
        {**IMAGES, "resample": 3, "image_mean": [0.4, 0.5, 0.6]},
    ],
    ids=["published", "defaults", "other values"],
)
@pytest.mark.parametrize("size", [(112, 112), (100, 84), (63, 211), (7, 31)])
def test_pictures_equal_the_reference_bit_for_bit(
    images: dict[str, Any], size: tuple[int, int], tmp_path: Path
) -> None:
    config = {"vision_config": {"image_size": 112, "patch_size": 14}, "mm_tokens_per_image": 16}
    own = processing_of(tmp_path, config, images)
    image = picture(1, *size).image
    pixels = own.prepare_image(image)["pixels"]
    values = np.take_along_axis(own.images.values, pixels.reshape(-1, 3), axis=0).reshape(pixels.shape)
    reference = Gemma3ImageProcessorPil(**{k: v for k, v in images.items() if k != "image_processor_type"})
    made = reference(images=[image], return_tensors="np")["pixel_values"][0]
    np.testing.assert_array_equal(values.transpose(2, 0, 1), made)
