"""The shared decoder against transformers' own models, from the same directory, in float32."""

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GPT2Config

from models.checkpoint import Checkpoint, CheckpointError
from models.configs import read_config
from models.decoder import rms_norm
from models.decoder_config import DecoderConfig
from models.families.text import TextModel
from models.interface import AddedRows, ForwardBatch
from models.loader import load_model
from tests import checkpoints, checkpoints_gemma
from tests.models.dense_attention import DenseAttention

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}

CASES: dict[str, tuple[Callable[..., Path], dict]] = {
    "llama": (checkpoints.tiny_llama, {}),
    "llama-tied": (checkpoints.tiny_llama, {"tie_word_embeddings": True}),
    "llama-biased": (checkpoints.tiny_llama, {"attention_bias": True, "mlp_bias": True}),
    "llama-gelu": (checkpoints.tiny_llama, {"hidden_act": "gelu_pytorch_tanh"}),
    "llama-llama3": (checkpoints.tiny_llama, {"rope_parameters": LLAMA3}),
    "llama-yarn": (checkpoints.tiny_llama, {"rope_parameters": YARN}),
    "llama-linear": (
        checkpoints.tiny_llama,
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 500.0, "factor": 2.0}},
    ),
    "llama-dynamic": (
        checkpoints.tiny_llama,
        {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}},
    ),
    "llama-sharded": (checkpoints.tiny_llama, {"max_shard_size": "200KB"}),
    "mistral": (checkpoints.tiny_mistral, {"sliding_window": None}),
    "mistral-window": (checkpoints.tiny_mistral, {"sliding_window": 7, "head_dim": 32}),
    "qwen2": (checkpoints.tiny_qwen2, {}),
    "qwen2-window": (
        checkpoints.tiny_qwen2,
        {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    ),
    "qwen3": (checkpoints.tiny_qwen3, {}),
    "gemma3": (checkpoints_gemma.tiny_gemma3_text, {}),
    "gemma3-biased": (checkpoints_gemma.tiny_gemma3_text, {"attention_bias": True}),
    "qwen3-tied-biased": (checkpoints.tiny_qwen3, {"tie_word_embeddings": True, "attention_bias": True}),
}


def load(directory: Path) -> TextModel:
    model = load_model(Checkpoint.open(str(directory)), dtype="float32")
    assert isinstance(model, TextModel)
    return model


def rows(ids: torch.Tensor, start: int, end: int) -> ForwardBatch:
    return ForwardBatch(ids[start:end], torch.arange(start, end)[None], ())


def logits(model: TextModel, ids: torch.Tensor, cuts: tuple[int, ...] = ()) -> torch.Tensor:
    """Logits of every position; the sequence is fed in the pieces that `cuts` makes."""
    attention = DenseAttention(model.attention)
    edges = [0, *cuts, len(ids)]
    pieces = [model.forward(rows(ids, a, b), attention) for a, b in pairwise(edges)]
    return model.logits(torch.cat(pieces))


def reference_logits(directory: Path, ids: torch.Tensor) -> torch.Tensor:
    reference = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    with torch.inference_mode():
        return reference(ids[None]).logits[0]


@pytest.fixture
def ids() -> torch.Tensor:
    return torch.randint(0, 300, (90,), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("case", CASES)
def test_logits_equal_transformers(case: str, tmp_path: Path, ids: torch.Tensor) -> None:
    build, overrides = CASES[case]
    directory = build(tmp_path, **overrides)
    expected = reference_logits(directory, ids)
    assert expected.std() > 0.1  # else this would compare zeros
    torch.testing.assert_close(logits(load(directory), ids), expected, atol=1e-5, rtol=1e-5)


EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


@pytest.mark.parametrize(
    ("kept", "tied"), [({EMBEDDING: 1, HEAD: 1}, True), ({HEAD: 1}, True), ({EMBEDDING: 1, HEAD: 2}, False)]
)
def test_the_files_have_the_last_word_on_a_tied_head(
    kept: dict[str, int], tied: bool, tmp_path: Path, ids: torch.Tensor
) -> None:
    directory = checkpoints.tiny_llama(tmp_path, tie_word_embeddings=True)
    tensors = load_file(directory / "model.safetensors")
    table = tensors.pop(EMBEDDING)
    tensors |= {name: table * factor for name, factor in kept.items()}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    model = load(directory)
    assert (model.decoder.head is model.decoder.embedding) == tied
    expected = reference_logits(directory, ids)
    torch.testing.assert_close(logits(model, ids), expected, atol=1e-5, rtol=1e-5)


def test_a_made_up_head_is_tied_as_the_configuration_says(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(str(checkpoints.tiny_llama(tmp_path, tie_word_embeddings=True)))
    model = load_model(checkpoint, dtype="float32", load_format="random")
    assert isinstance(model, TextModel)
    assert model.decoder.head is model.decoder.embedding


def test_pieces_give_what_the_whole_gives(tmp_path: Path, ids: torch.Tensor) -> None:
    model = load(checkpoints.tiny_mistral(tmp_path, sliding_window=9))
    torch.testing.assert_close(
        logits(model, ids, cuts=(1, 17, 40, 89)), logits(model, ids), atol=1e-5, rtol=1e-5
    )


def test_a_configuration_without_any_scaling_in_the_old_spelling(tmp_path: Path, ids: torch.Tensor) -> None:
    unscaled = {"rope_type": "default", "rope_theta": 500.0}
    directory = checkpoints.tiny_llama(tmp_path, rope_parameters=unscaled)
    expected = logits(load(directory), ids)
    config = json.loads((directory / "config.json").read_text())
    config |= {"rope_theta": config.pop("rope_parameters")["rope_theta"], "rope_scaling": None}
    checkpoints.write_json(directory / "config.json", config)
    torch.testing.assert_close(logits(load(directory), ids), expected)


def test_the_old_spelling_of_rotary_settings_for_each_kind_of_layer(
    tmp_path: Path, ids: torch.Tensor
) -> None:
    directory = checkpoints_gemma.tiny_gemma3_text(tmp_path)
    expected = logits(load(directory), ids)
    config = json.loads((directory / "config.json").read_text())
    by_kind = config.pop("rope_parameters")
    scaling = by_kind["full_attention"]
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = scaling
    config["rope_local_base_freq"] = by_kind["sliding_attention"]["rope_theta"]
    checkpoints.write_json(directory / "config.json", config)
    torch.testing.assert_close(logits(load(directory), ids), expected)


@torch.no_grad()
def test_scaled_embeddings_and_norms_round_as_the_reference_in_bfloat16(
    tmp_path: Path, ids: torch.Tensor
) -> None:
    """A width whose root bfloat16 can't hold; bit for bit."""
    directory = checkpoints_gemma.tiny_gemma3_text(tmp_path, hidden_size=96)
    reference = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.bfloat16).model
    decoder = load_model(Checkpoint.open(str(directory)), dtype="bfloat16").decoder  # type: ignore[attr-defined]
    embedded = decoder.embed(ids)
    assert torch.equal(embedded, reference.embed_tokens(ids))
    eps = decoder.config.eps
    assert torch.equal(rms_norm(embedded, decoder.final_norm, eps), reference.norm(embedded))


@pytest.mark.parametrize("spelling", ["rope_type", "type"])
def test_old_spelling_of_rotary_settings(spelling: str, tmp_path: Path, ids: torch.Tensor) -> None:
    directory = checkpoints.tiny_llama(tmp_path, rope_parameters=LLAMA3)
    expected = logits(load(directory), ids)
    config = json.loads((directory / "config.json").read_text())
    scaling = dict(config.pop("rope_parameters"))
    config["rope_theta"] = scaling.pop("rope_theta")
    scaling[spelling] = scaling.pop("rope_type")
    config["rope_scaling"] = scaling
    checkpoints.write_json(directory / "config.json", config)
    torch.testing.assert_close(logits(load(directory), ids), expected)


def test_longrope_is_served_only_where_it_is_exact(tmp_path: Path, ids: torch.Tensor) -> None:
    factors = [1.0 + i / 4 for i in range(8)]
    directory = checkpoints.tiny_llama(
        tmp_path,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": factors,
            "long_factor": [4 * f for f in factors],
            "original_max_position_embeddings": 128,
        },
    )
    model = load(directory)
    assert model.max_positions == 128
    torch.testing.assert_close(logits(model, ids), reference_logits(directory, ids), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("published", "served"), [(64, 256), (300, 300)])
def test_yarn_reaches_as_far_as_its_factor_says(published: int, served: int, tmp_path: Path) -> None:
    yarn = {"rope_theta": 10000.0, "rope_scaling": {**YARN, "type": YARN["rope_type"]}}
    directory = checkpoints.tiny_llama(tmp_path)
    config = json.loads((directory / "config.json").read_text())
    del config["rope_parameters"]
    checkpoints.write_json(
        directory / "config.json", {**config, **yarn, "max_position_embeddings": published}
    )
    assert load(directory).max_positions == served


def test_a_fused_decoder_is_asked_first(tmp_path: Path, ids: torch.Tensor) -> None:
    class Fused:
        def accepts(self, attention: object) -> bool:
            return attention is its_own

        def run(
            self,
            hidden: torch.Tensor,
            positions: torch.Tensor,
            attention: object,
            added: Sequence[AddedRows],
            read: torch.Tensor | None,
        ) -> torch.Tensor:
            assert positions.shape == (1, 1)
            return torch.full_like(hidden, 2.0)

        def logits(self, hidden: torch.Tensor) -> torch.Tensor:
            return hidden

    model = load(checkpoints.tiny_llama(tmp_path))
    model.decoder.fused = Fused()
    its_own, another = DenseAttention(model.attention), DenseAttention(model.attention)
    assert (model.forward(rows(ids, 0, 1), its_own) == 2.0).all()
    assert not (model.forward(rows(ids, 0, 1), another) == 2.0).all()


def test_what_is_not_supported_is_refused_by_name(tmp_path: Path) -> None:
    config = read_config(Checkpoint.open(str(checkpoints.tiny_llama(tmp_path, hidden_act="mish"))))
    with pytest.raises(CheckpointError, match="mish"):
        DecoderConfig.from_text_config(config)
    with pytest.raises(CheckpointError, match="gpt2"):
        DecoderConfig.from_text_config(GPT2Config())
