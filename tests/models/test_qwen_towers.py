"""The vision and audio towers against transformers' own, fp32, the same random weights."""

import numpy as np
import pytest
import torch
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5OmniThinkerConfig,
    Qwen2VLConfig,
    Qwen3VLConfig,
    WhisperFeatureExtractor,
)
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import (
    Qwen2_5OmniAudioEncoder,
    Qwen2_5OmniVisionEncoder,
)
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VisionTransformerPretrainedModel
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VisionTransformerPretrainedModel
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionModel

from models.families.qwen_audio import AudioConfig, QwenAudio
from models.families.qwen_vision import QwenVision
from models.families.qwen_vision_config import VisionConfig
from models.weights import StateDict, Weights

PLAIN = {"depth": 3, "embed_dim": 48, "num_heads": 3, "hidden_size": 40, "mlp_ratio": 2}
WINDOWED = {
    "depth": 4,
    "hidden_size": 48,
    "num_heads": 3,
    "intermediate_size": 64,
    "out_hidden_size": 40,
    "window_size": 112,
    "fullatt_block_indexes": [1, 3],
}
DEEP = {
    "depth": 4,
    "hidden_size": 24,
    "num_heads": 2,
    "intermediate_size": 32,
    "out_hidden_size": 20,
    "num_position_embeddings": 50,  # a square of 7 x 7, and one row that nobody reads
    "deepstack_visual_indexes": [3, 1],
}
AUDIO = {
    "encoder_layers": 2,
    "d_model": 32,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "output_dim": 40,
    "n_window": 100,
}
TOWERS = {
    "qwen2_vl": (
        Qwen2VisionTransformerPretrainedModel,
        Qwen2VLConfig(vision_config={**PLAIN, "initializer_range": 0.1}).vision_config,
    ),
    "qwen2_5_vl": (
        Qwen2_5_VisionTransformerPretrainedModel,
        Qwen2_5_VLConfig(vision_config={**WINDOWED, "initializer_range": 0.1}).vision_config,
    ),
    "qwen3_vl": (
        Qwen3VLVisionModel,
        Qwen3VLConfig(vision_config={**DEEP, "initializer_range": 0.1}).vision_config,
    ),
    "qwen2_5_omni": (
        Qwen2_5OmniVisionEncoder,
        Qwen2_5OmniThinkerConfig(vision_config={**WINDOWED, "initializer_range": 0.1}).vision_config,
    ),
}
VALUES = np.linspace((-1.8, -1.7, -1.5), (1.9, 2.0, 2.1), 256, dtype=np.float32)
# Whole windows, padding below, beside, both, a picture within one window, one row, and one merged patch.
GRIDS = [(16, 16), (18, 16), (8, 14), (22, 10), (4, 6), (2, 30), (2, 2)]


def randomised(reference: torch.nn.Module) -> tuple[torch.nn.Module, Weights]:
    """Every tensor random, norms and biases too, so that none can be left out unnoticed."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in reference.named_parameters():
            base = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(base + 0.25 * torch.randn(parameter.shape, generator=generator))
    weights = Weights(StateDict(reference.state_dict()), torch.float32, torch.device("cpu"))
    return reference.eval(), weights


@pytest.fixture(scope="module", params=TOWERS)
def vision(request: pytest.FixtureRequest) -> tuple[torch.nn.Module, QwenVision]:
    cls, config = TOWERS[request.param]
    reference, weights = randomised(cls._from_config(config))
    tower = QwenVision(VisionConfig.of(config), weights, VALUES)
    return reference.double(), tower  # in float32 the reference is further off than the tower


def patches(tower: QwenVision, rows: int, columns: int) -> torch.Tensor:
    """uint8 [rows * columns, patch * patch * 3], channels last."""
    generator = torch.Generator().manual_seed(rows * 100 + columns)
    shape = rows * columns, 3 * tower.config.patch_shape[-1] ** 2
    return torch.randint(256, shape, generator=generator, dtype=torch.uint8)


def as_published(patches: torch.Tensor) -> torch.Tensor:
    """float32 [rows * columns, 3 * 2 * patch * patch]: values, channels first, both frames alike."""
    values = torch.from_numpy(VALUES)[patches.view(len(patches), -1, 3).long(), torch.arange(3)]
    return values.transpose(1, 2).unsqueeze(2).repeat(1, 1, 2, 1).flatten(1)


def encoded(reference: torch.nn.Module, values: torch.Tensor, grids: torch.Tensor) -> torch.Tensor:
    """The rows that replace placeholders, and beside each what is added to it later."""
    out = reference(as_published(values).double(), grid_thw=grids)
    return torch.cat((out.pooler_output, *getattr(out, "deepstack_features", ())), dim=-1).float()


@pytest.mark.parametrize(("rows", "columns"), GRIDS)
@torch.no_grad()
def test_vision_equals_the_reference(
    vision: tuple[torch.nn.Module, QwenVision], rows: int, columns: int
) -> None:
    reference, tower = vision
    values = patches(tower, rows, columns)
    expected = encoded(reference, values, torch.tensor([[1, rows, columns]]))
    actual = tower(values, (1, rows, columns))
    assert actual.shape == (rows * columns // 4, tower.config.output_width)
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_vision_alone_equals_the_reference_in_a_batch(vision: tuple[torch.nn.Module, QwenVision]) -> None:
    reference, tower = vision
    values = [patches(tower, *grid) for grid in GRIDS]
    expected = encoded(reference, torch.cat(values), torch.tensor([[1, *grid] for grid in GRIDS]))
    actual = torch.cat([tower(v, (1, *grid)) for v, grid in zip(values, GRIDS, strict=True)])
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


def test_patches_are_told_apart_by_where_they_stand(vision: tuple[torch.nn.Module, QwenVision]) -> None:
    _, tower = vision
    values = patches(tower, 16, 16)
    swapped = torch.cat([values[:4], values[8:12], values[4:8], values[12:]])
    moved = tower(values, (1, 16, 16))[0] - tower(swapped, (1, 16, 16))[0]
    assert moved.abs().max() > 1e-2


@pytest.fixture(scope="module")
def audio() -> tuple[torch.nn.Module, QwenAudio]:
    config = Qwen2_5OmniThinkerConfig(audio_config={**AUDIO, "initializer_range": 0.1}).audio_config
    reference, weights = randomised(Qwen2_5OmniAudioEncoder._from_config(config))
    return reference, QwenAudio(AudioConfig.of(config), weights)


# Below a token's worth, odd lengths, a chunk exactly, a chunk and one frame, and several chunks.
@pytest.mark.parametrize("seconds", [0.03, 0.1, 0.35, 1.0, 1.995, 2.0, 2.01, 2.02, 7.77, 35.0])
@torch.no_grad()
def test_audio_equals_the_reference(audio: tuple[torch.nn.Module, QwenAudio], seconds: float) -> None:
    reference, tower = audio
    samples = np.random.default_rng(0).standard_normal(int(seconds * 16000)).astype(np.float32) * 0.1
    extractor = WhisperFeatureExtractor(feature_size=128, chunk_length=40, return_attention_mask=True)
    out = extractor(samples, sampling_rate=16000, return_attention_mask=True, return_tensors="pt")
    length = out["attention_mask"].sum()
    features = out["input_features"][0, :, :length]
    expected = reference(features, feature_lens=length[None]).last_hidden_state
    actual = tower(features)
    assert actual.shape == ((int(length) + 1) // 4, 40)
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
