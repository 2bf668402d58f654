"""What LLaVA checkpoints differ in, each against transformers on the same weights."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from models.checkpoint import Checkpoint, CheckpointError
from models.families.llava import LlavaModel
from models.interface import EncoderInput
from models.loader import load_model
from models.registry import load_processing
from tests.checkpoints import write_json
from tests.checkpoints_llava import tiny_llava
from tests.proof.llava_reference import LlavaReference
from tests.proof.prompts import picture


def load(directory: Path, dtype: str = "float32") -> LlavaModel:
    model = load_model(Checkpoint.open(str(directory)), dtype=dtype)
    assert isinstance(model, LlavaModel)
    return model


def encoded(model: LlavaModel, seed: int = 1) -> torch.Tensor:
    image = picture(seed, 100, 84).image
    layout = model.processing.image_layout(*image.size)
    arrays = {name: torch.from_numpy(a) for name, a in model.processing.prepare_image(image).items()}
    (rows,) = model.encode("image", [EncoderInput(arrays, layout)])
    assert rows.shape == (layout.num_tokens, model.encoding_width)
    return rows


@torch.no_grad()
def expected(directory: Path, seed: int = 1) -> torch.Tensor:
    reference = LlavaReference(directory)
    pixels = reference.images(images=[picture(seed, 100, 84).image], return_tensors="pt")["pixel_values"]
    config = reference.model.config
    return reference.model.get_image_features(
        pixel_values=pixels,
        vision_feature_layer=config.vision_feature_layer,
        vision_feature_select_strategy=config.vision_feature_select_strategy,
    ).pooler_output[0]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"vision_feature_select_strategy": "full"},
        {"vision_feature_layer": -1},
        {"vision_feature_layer": 1},
        {"vision_feature_layer": [0, -3, -1]},
        {"projector_hidden_act": "gelu_pytorch_tanh", "multimodal_projector_bias": False},
        {"text_type": "mistral"},
    ],
    ids=str,
)
def test_encodings_equal_the_reference(settings: dict[str, Any], tmp_path: Path) -> None:
    tiny_llava(tmp_path, **settings)
    torch.testing.assert_close(encoded(load(tmp_path)), expected(tmp_path), atol=1e-4, rtol=1e-4)


def test_layers_that_nobody_reads_are_not_kept(tmp_path: Path) -> None:
    assert len(load(tiny_llava(tmp_path)).vision.blocks) == 2


@pytest.mark.parametrize(
    "names",
    [
        {"vision_tower.": "vision_tower.vision_model."},
        {
            "language_model.model.": "model.language_model.",
            "language_model.lm_head.": "lm_head.",
            "vision_tower.": "model.vision_tower.",
            "multi_modal_projector.": "model.multi_modal_projector.",
        },
    ],
    ids=["as first published", "as modules are called now"],
)
def test_tensors_by_all_their_names(names: dict[str, str], tmp_path: Path) -> None:
    model = load(tiny_llava(tmp_path))
    tensors = load_file(tmp_path / "model.safetensors")
    renamed = {}
    for name, tensor in tensors.items():
        prefix = next((prefix for prefix in names if name.startswith(prefix)), "")
        renamed[names.get(prefix, "") + name.removeprefix(prefix)] = tensor
    assert renamed.keys() != tensors.keys()
    save_file(renamed, tmp_path / "model.safetensors", metadata={"format": "pt"})
    again = load(tmp_path)
    assert torch.equal(encoded(again), encoded(model))
    assert isinstance(again.decoder.head, torch.Tensor)
    assert isinstance(model.decoder.head, torch.Tensor)
    assert torch.equal(again.decoder.head, model.decoder.head)
    assert torch.equal(again.decoder.embedding, model.decoder.embedding)


def test_in_bfloat16(tmp_path: Path) -> None:
    tiny_llava(tmp_path)
    rows = encoded(load(tmp_path, "bfloat16"))
    assert rows.dtype is torch.bfloat16
    exact = expected(tmp_path)
    assert (rows.float() - exact).norm() < 0.03 * exact.norm()


@pytest.mark.parametrize(
    ("tower", "size"),
    [("siglip_vision_model", {"height": 384, "width": 384}), ("pixtral", {"longest_edge": 1024})],
)
def test_another_tower_is_named_before_how_it_takes_pictures(tower: str, size: dict, tmp_path: Path) -> None:
    """As published for LLaVA-Interleave and Pixtral, which carry the same architecture."""
    config = {"architectures": ["LlavaForConditionalGeneration"], "vision_config": {"model_type": tower}}
    write_json(tmp_path / "config.json", config)
    write_json(tmp_path / "preprocessor_config.json", {"size": size})
    with pytest.raises(CheckpointError, match=tower):
        load_processing(Checkpoint.open(str(tmp_path)))
