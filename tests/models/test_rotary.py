"""Rotary positions along several axes, against transformers' modules."""

import pytest
import torch
from transformers import LlamaConfig, Qwen2_5_VLTextConfig, Qwen3VLTextConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLRotaryEmbedding
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRotaryEmbedding

from models.checkpoint import CheckpointError
from models.rotary import Rotary, apply_rotary

SIZES = {"hidden_size": 128, "num_attention_heads": 4, "head_dim": 32, "max_position_embeddings": 512}


def positions(num_axes: int, num_rows: int = 20) -> torch.Tensor:
    return torch.randint(0, 300, (num_axes, num_rows), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("config_class", "module", "sections", "extra"),
    [
        (Qwen2_5_VLTextConfig, Qwen2_5_VLRotaryEmbedding, [4, 6, 6], {}),
        (Qwen3VLTextConfig, Qwen3VLTextRotaryEmbedding, [8, 4, 4], {"mrope_interleaved": True}),
    ],
)
def test_each_axis_turns_its_own_frequencies(config_class, module, sections, extra) -> None:
    config = config_class(
        **SIZES,
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "mrope_section": sections, **extra},
    )
    where = positions(3)
    expected = module(config)(torch.zeros(1, 1), where[:, None])
    rotary = Rotary(config)
    for ours, theirs in zip(rotary(where), expected, strict=True):
        torch.testing.assert_close(ours, theirs[0], atol=1e-5, rtol=0)


def test_one_axis_stands_for_all() -> None:
    config = Qwen2_5_VLTextConfig(
        **SIZES, rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [4, 6, 6]}
    )
    rotary, where = Rotary(config), positions(1)
    for one, three in zip(rotary(where), rotary(where.expand(3, -1)), strict=True):
        assert torch.equal(one, three)


def test_turning_keeps_length_and_depends_on_distance_alone() -> None:
    rotary = Rotary(LlamaConfig(**SIZES))
    q, k = torch.randn(2, 1, 1, 32, generator=torch.Generator().manual_seed(0))

    def score(at: int, distance: int) -> torch.Tensor:
        turned_q = apply_rotary(q, *rotary(torch.tensor([[at + distance]])))
        return (turned_q * apply_rotary(k, *rotary(torch.tensor([[at]])))).sum()

    torch.testing.assert_close(score(0, 7), score(200, 7), atol=1e-4, rtol=0)
    assert not torch.allclose(score(0, 7), score(0, 8), atol=1e-2)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 6, 7]}, "does not add up"),
        ({"rope_type": "llama4-like", "rope_theta": 1e4}, "not supported"),
        (
            {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4, "partial_rotary_factor": 0.5},
            "part of each",
        ),
    ],
)
def test_what_is_not_supported_is_refused(parameters: dict, message: str) -> None:
    config = LlamaConfig(**SIZES)
    config.rope_parameters = parameters
    with pytest.raises(CheckpointError, match=message):
        Rotary(config)
