"""The two files that weights come in, and the one that they go to."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from models.smol_omni.adapters import bfloat16, read_adapters, write_tensors
from models.smol_omni.ctranslate import read_variables
from models.smol_omni.gguf import read_gguf
from tests.smol_omni.stand_ins import gguf, hearing_file, variables


def test_metadata_comes_back() -> None:
    entries = {"name": "Ġ日本", "count": 7, "share": 0.5, "merges": ["a b", "c d"], "kinds": [3, 1]}
    assert read_gguf(gguf(entries, {}, {})).metadata == entries


@pytest.mark.parametrize(("kind", "steps"), [(0, np.inf), (3, 15), (8, 254)])
def test_tensors_come_back_to_half_a_step(kind: int, steps: float) -> None:
    values = np.random.default_rng(kind).normal(0, 1, (6, 64)).astype(np.float32)
    other = np.arange(5, dtype=np.float32)
    read = read_gguf(gguf({}, {"x": values, "y": other}, {"x": kind})).tensors
    span = 2 * np.abs(values).max() if kind == 8 else np.ptp(values)
    assert np.abs(read["x"] - values).max() <= 0.51 * span / steps + 2e-3 * (kind != 0)
    assert np.array_equal(read["y"], other)


def test_a_block_of_four_bits_is_scale_minimum_and_nibbles() -> None:
    block = np.float16(0.5).tobytes() + np.float16(-1).tobytes() + bytes([0x21] * 16)
    head = gguf({}, {"x": np.arange(32, dtype=np.float32)}, {"x": 3})
    read = read_gguf(head[: -len(block) - (-len(block) % 32)] + block).tensors["x"]
    assert read.tolist() == [-0.5] * 16 + [0.0] * 16


def test_what_is_no_gguf_is_refused() -> None:
    with pytest.raises(ValueError, match="GGUF"):
        read_gguf(b"GGUF\2\0\0\0" + b"\0" * 16)
    with pytest.raises(ValueError, match="kind 136"):
        read_gguf(
            gguf({}, {"x": np.arange(32, dtype=np.float32)}, {"x": 8}).replace(b"\x08\0\0\0", b"\x88\0\0\0")
        )


def test_halves_come_back_and_other_variables_are_passed_over() -> None:
    made = variables(np.random.default_rng(1))
    read = read_variables(hearing_file(made))
    assert read.keys() == made.keys()
    assert all(np.array_equal(read[name], made[name].astype(np.float32)) for name in made)


def test_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 5"):
        read_variables(b"\5\0\0\0")


def test_bfloat16_is_rounded_as_torch_rounds_it(tmp_path) -> None:
    values = torch.randn(50, 3, generator=torch.manual_seed(0))
    values[0] = torch.tensor([1.00390625, 1.01171875, -1.00390625])  # ties
    write_tensors(tmp_path / "x.safetensors", {"b.c": bfloat16(values.numpy()), "a": bfloat16(np.ones(3))})
    read = load_file(tmp_path / "x.safetensors")
    assert torch.equal(read["b.c"], values.bfloat16())
    back = read_adapters(tmp_path / "x.safetensors")
    assert np.array_equal(back["b.c"], bfloat16(values.numpy()))
    assert back.keys() == {"a", "b.c"}
