"""Tensors by name: from safetensors, from pickles, made up, and taken back from quantised files."""

import json
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from models import quantized
from models.checkpoint import Checkpoint, CheckpointError
from models.families.text import TextModel
from models.loader import load_model
from models.weights import RandomWeights, Weights
from tests.checkpoints import tiny_llama, write_json
from tests.checkpoints_qwen import tiny_qwen2_5_omni

CPU = torch.device("cpu")


def weights_of(directory: Path, **tensors: torch.Tensor) -> Weights:
    write_json(directory / "config.json", {"architectures": ["LlamaForCausalLM"]})
    save_file(
        {name.replace("__", "."): tensor for name, tensor in tensors.items()}, directory / "model.safetensors"
    )
    return Weights.open(Checkpoint.open(str(directory)), torch.float32, CPU)


def test_the_first_name_that_exists_counts(tmp_path: Path) -> None:
    weights = weights_of(tmp_path, new__a=torch.ones(2), old__b=torch.zeros(3))
    view = weights.prefixed("old.", "new.")
    assert view.take("a", shape=(2,)).tolist() == [1, 1]
    assert view.take("z", "b", shape=(3,)).tolist() == [0, 0, 0]
    assert weights.prefixed("ne").prefixed("w.").has("a")
    assert not view.has("c")
    with pytest.raises(CheckpointError, match=r"old\.c or new\.c"):
        view.take("c", shape=(1,))


def test_one_view_over_another(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    base = weights_of(tmp_path / "base", x__a=torch.ones(1), x__b=torch.ones(1))
    view = weights_of(tmp_path, y__b=torch.zeros(1)).prefixed("y.").over(base.prefixed("x."))
    assert [view.take(name, shape=(1,)).item() for name in "ab"] == [1, 0]


def test_a_wrong_shape_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"Tensor a has shape \[2\].*\[3\]"):
        weights_of(tmp_path, a=torch.ones(2)).take("a", shape=(3,))


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
def test_quantised_numbers_are_never_taken_for_values(dtype: torch.dtype, tmp_path: Path) -> None:
    weights = weights_of(tmp_path, a=torch.ones(2).to(dtype))
    with pytest.raises(CheckpointError, match=r"quantised.*quantization_config"):
        weights.take("a", shape=(2,))


@pytest.mark.parametrize("packed", ["qweight", "weight_packed"])
def test_packed_matrices_are_named_for_what_they_are(packed: str, tmp_path: Path) -> None:
    weights = weights_of(tmp_path, **{f"proj__{packed}": torch.ones(2, dtype=torch.int32)})
    with pytest.raises(CheckpointError, match=f"quantised.*proj.{packed}"):
        weights.take("proj.weight", shape=(2,))


def test_tensors_arrive_in_the_asked_dtype(tmp_path: Path) -> None:
    directory = tmp_path
    weights_of(directory, a=torch.tensor([1.5], dtype=torch.float16))
    weights = Weights.open(Checkpoint.open(str(directory)), torch.bfloat16, CPU)
    taken = weights.take("a", shape=(1,))
    assert taken.dtype is torch.bfloat16
    assert taken.item() == 1.5


def test_progress_counts_up_to_the_whole(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    directory = tiny_llama(tmp_path, max_shard_size="200KB")
    load_model(Checkpoint.open(str(directory)), on_progress=lambda done, total: calls.append((done, total)))
    total = sum(path.stat().st_size for path in directory.glob("*.safetensors"))
    assert {t for _, t in calls} == {total}
    assert calls == sorted(calls)
    assert 0.9 * total < calls[-1][0] <= total


def test_a_file_that_is_no_safetensors(tmp_path: Path) -> None:
    directory = tiny_llama(tmp_path)
    (directory / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match=r"model\.safetensors can't be read"):
        load_model(Checkpoint.open(str(directory)))


def test_no_weights_at_all(tmp_path: Path) -> None:
    directory = tiny_llama(tmp_path)
    (directory / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="has no weights"):
        load_model(Checkpoint.open(str(directory)))


@pytest.mark.parametrize("archive", [True, False])
def test_pickled_weights(archive: bool, tmp_path: Path) -> None:
    directory = tiny_llama(tmp_path)
    path = directory / "model.safetensors"
    tensors = load_file(path)
    path.unlink()
    torch.save(tensors, directory / "pytorch_model.bin", _use_new_zipfile_serialization=archive)
    assert torch.equal(layer_matrix(directory), tensors["model.layers.0.mlp.down_proj.weight"])


@pytest.mark.parametrize(
    "content", [b"", b"not a pickle", pickle.dumps(print, protocol=2)], ids=["empty", "text", "code"]
)
def test_a_pickle_that_is_broken_or_wants_to_run_code(content: bytes, tmp_path: Path) -> None:
    directory = tiny_llama(tmp_path)
    (directory / "model.safetensors").unlink()
    (directory / "pytorch_model.bin").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin can't be read"):
        load_model(Checkpoint.open(str(directory)))


def test_random_weights_are_the_same_in_every_run(tmp_path: Path) -> None:
    first, second = (RandomWeights(0.1, torch.float32, CPU) for _ in range(2))
    assert first.has("anything")
    matrix = first.take("a.weight", shape=(100, 100))
    second.take("b.weight", shape=(3, 3))  # the order of asking doesn't matter
    assert torch.equal(matrix, second.take("a.weight", shape=(100, 100)))
    assert not torch.equal(matrix, first.take("b.weight", shape=(100, 100)))
    assert abs(matrix.std().item() - 0.1) < 0.005
    assert (first.take("norm.weight", shape=(4,)) == 1).all()
    assert (first.take("q_proj.bias", shape=(4,)) == 0).all()


def test_a_quantised_checkpoint_is_taken_back_to_full_matrices(tmp_path: Path) -> None:
    directory = tiny_llama(tmp_path)
    original = load_file(directory / "model.safetensors")["model.layers.0.mlp.down_proj.weight"]
    quantise_fp8(directory, block=32)
    restored = layer_matrix(directory)
    assert restored.dtype is torch.float32
    assert not torch.equal(restored, original)
    torch.testing.assert_close(restored, original, atol=2e-3, rtol=2**-4)  # half a step of 3 bits of mantissa


def test_a_quantisation_that_can_t_be_undone_here(tmp_path: Path) -> None:
    directory = tiny_llama(tmp_path)
    config = json.loads((directory / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    write_json(directory / "config.json", config)
    with pytest.raises(CheckpointError, match="gptq"):
        load_model(Checkpoint.open(str(directory)))


def test_a_quantised_checkpoint_of_which_transformers_knows_nothing(tmp_path: Path) -> None:
    directory = tiny_qwen2_5_omni(tmp_path)
    config = json.loads((directory / "config.json").read_text())
    config["architectures"] = ["Qwen2_5OmniModel"]
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    write_json(directory / "config.json", config)
    with pytest.raises(CheckpointError) as refused:
        load_model(Checkpoint.open(str(directory)))
    assert "does not know the architecture Qwen2_5OmniModel; serve" in str(refused.value)
    assert "attribute" not in str(refused.value)


def test_what_only_transformers_own_code_understands_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise AttributeError("'NoneType' object has no attribute 'weight'")

    monkeypatch.setattr(quantized, "_load", broken)
    directory = tiny_llama(tmp_path)
    quantise_fp8(directory, block=32)
    with pytest.raises(CheckpointError, match="quantised with 'fp8'") as refused:
        load_model(Checkpoint.open(str(directory)))
    assert "NoneType" not in str(refused.value)


def layer_matrix(directory: Path) -> torch.Tensor:
    model = load_model(Checkpoint.open(str(directory)), dtype="float32")
    assert isinstance(model, TextModel)
    return model.decoder.layers[0].down


def quantise_fp8(directory: Path, block: int) -> None:
    """Rewrite the projections as published FP8 checkpoints have them: a scale for each square block."""
    tensors = load_file(directory / "model.safetensors")
    for name in [name for name in tensors if "proj" in name]:
        matrix = tensors[name]
        scale = matrix.abs().max() / torch.finfo(torch.float8_e4m3fn).max
        tensors[name] = (matrix / scale).to(torch.float8_e4m3fn)
        blocks = [-(-size // block) for size in matrix.shape]
        tensors[f"{name}_scale_inv"] = scale.expand(blocks).contiguous()
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((directory / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [block, block]}
    write_json(directory / "config.json", config)
