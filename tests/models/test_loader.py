"""Which family serves a checkpoint, in which dtype, and what is refused."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from models.checkpoint import Checkpoint, CheckpointError
from models.interface import EncoderInput
from models.loader import load_model, resolve_dtype
from models.processing.base import MediaLayout
from models.registry import FAMILIES, family, import_class, load_processing
from tests.checkpoints import tiny_llama, tiny_qwen3, write_json

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def checkpoint_with(directory: Path, **config: object) -> Checkpoint:
    write_json(directory / "config.json", config)
    return Checkpoint.open(str(directory))


@pytest.mark.parametrize("architecture", FAMILIES)
def test_both_halves_of_every_family_exist(architecture: str) -> None:
    entry = FAMILIES[architecture]
    assert callable(import_class(entry.processing).from_checkpoint)
    assert callable(import_class(entry.model).load)


def test_an_unknown_architecture_is_named_and_so_are_the_known(tmp_path: Path) -> None:
    checkpoint = checkpoint_with(tmp_path, architectures=["NoSuchModel"])
    with pytest.raises(CheckpointError, match=r"NoSuchModel.*LlamaForCausalLM"):
        family(checkpoint)
    with pytest.raises(CheckpointError, match="NoSuchModel"):
        load_processing(checkpoint)
    with pytest.raises(CheckpointError, match="NoSuchModel"):
        load_model(checkpoint)


def test_what_a_model_says_of_itself(tmp_path: Path) -> None:
    model = load_model(Checkpoint.open(str(tiny_qwen3(tmp_path))), dtype="bfloat16")
    assert (model.architecture, model.dtype, model.device) == ("Qwen3ForCausalLM", torch.bfloat16, CPU)
    assert (model.vocab_size, model.max_positions, model.encoding_width) == (304, 2048, 64)
    assert model.attention.num_layers == 3
    assert model.attention[:4] == (4, 2, 32, 32**-0.5)
    assert model.processing.kinds == frozenset()
    with pytest.raises(ValueError, match="no encoder"):
        model.encode("image", [EncoderInput({}, MediaLayout(1))])


def test_made_up_weights_need_a_configuration_alone(tmp_path: Path) -> None:
    directory = tiny_llama(tmp_path)
    (directory / "model.safetensors").unlink()
    model = load_model(Checkpoint.open(str(directory)), load_format="random", dtype="float32")
    assert model.logits(torch.ones(1, 64)).std() > 0.1


@pytest.mark.parametrize(
    ("config", "device", "expected"),
    [
        ({"dtype": "bfloat16"}, CPU, torch.bfloat16),
        ({"torch_dtype": "bfloat16"}, GPU, torch.bfloat16),
        ({"torch_dtype": "torch.float32"}, GPU, torch.float32),
        ({"dtype": "float16"}, GPU, torch.float16),
        ({"dtype": "float16"}, CPU, torch.float32),
        ({"thinker_config": {"text_config": {"dtype": "bfloat16"}}}, CPU, torch.bfloat16),
        ({}, CPU, torch.float32),
    ],
)
def test_automatic_dtype(config: dict, device: torch.device, expected: torch.dtype, tmp_path: Path) -> None:
    assert resolve_dtype(checkpoint_with(tmp_path, **config), "auto", device) is expected


def test_automatic_dtype_of_a_silent_configuration_is_that_of_the_weights(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(str(tiny_llama(tmp_path)))
    path = tmp_path / "model.safetensors"
    save_file({name: tensor.bfloat16() for name, tensor in load_file(path).items()}, path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["dtype"]
    assert load_model(checkpoint_with(tmp_path, **config)).dtype is torch.bfloat16
    assert resolve_dtype(checkpoint, "auto", CPU) is torch.float32


def test_an_unknown_dtype(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="int8"):
        resolve_dtype(checkpoint_with(tmp_path), "int8", CPU)


def test_a_configuration_that_transformers_refuses(tmp_path: Path) -> None:
    config = json.loads((tiny_llama(tmp_path) / "config.json").read_text())
    with pytest.raises(CheckpointError, match="not valid"):
        load_model(checkpoint_with(tmp_path, **{**config, "hidden_size": "wide"}))


def test_a_gpu_computes_float32_in_full_and_attention_without_a_plan_for_every_size(tmp_path: Path) -> None:
    cudnn, cuda = torch.backends.cudnn, torch.backends.cuda
    cudnn.allow_tf32 = True
    cuda.enable_cudnn_sdp(True)
    load_model(Checkpoint.open(str(tiny_llama(tmp_path))), dtype="float32")
    assert not cudnn.allow_tf32
    assert not cuda.cudnn_sdp_enabled()
