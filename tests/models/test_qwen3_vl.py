"""What Qwen3-VL checkpoints differ in, each against transformers on the same weights."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from models.checkpoint import Checkpoint
from models.loader import load_model
from tests.checkpoints import write_json
from tests.checkpoints_qwen import VL_TOKENS, tiny_qwen3_vl
from tests.models.test_qwen_forward import (
    PICTURES,
    SENSITIVITY,
    TOLERANCE,
    Pair,
    bracketed,
    laid_out,
    log_probs,
    moved,
    positions,
    reference_outputs,
)
from tests.proof.reference import Reference


def pair(directory: Path) -> Pair:
    checkpoint = Checkpoint.open(str(directory))
    tokens = {name: checkpoint.config[f"{name}_token_id"] for name in VL_TOKENS}
    return Pair(directory, load_model(checkpoint), Reference(directory), tokens)


def check(directory: Path) -> None:
    both = pair(directory)
    pieces = bracketed(both, *PICTURES[:2])
    layout = laid_out(both, pieces)
    expected, *_ = reference_outputs(both, pieces)
    actual = log_probs(both, layout, positions(both, layout))
    torch.testing.assert_close(actual, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    "vision",
    [
        {"deepstack_visual_indexes": [2, 0]},
        {"deepstack_visual_indexes": [0, 1, 2, 3]},  # one more than the decoder has layers
        {"deepstack_visual_indexes": []},
        {"hidden_act": "gelu", "num_position_embeddings": 17},
    ],
    ids=str,
)
def test_towers_equal_the_reference(vision: dict[str, Any], tmp_path: Path) -> None:
    check(tiny_qwen3_vl(tmp_path, **vision))


def test_a_tied_head_equals_the_reference(tmp_path: Path) -> None:
    check(tiny_qwen3_vl(tmp_path, tied=True))


@pytest.mark.parametrize("left_out", ["mrope_interleaved", "mrope_section"])
def test_what_a_configuration_leaves_out_is_the_reference_s_own(left_out: str, tmp_path: Path) -> None:
    tiny_qwen3_vl(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["text_config"]["rope_scaling"][left_out]
    write_json(tmp_path / "config.json", config)
    check(tmp_path)


def test_every_layer_of_the_tower_that_is_read_moves_the_answer(tmp_path: Path) -> None:
    both = pair(tiny_qwen3_vl(tmp_path))
    layout = laid_out(both, bracketed(both, PICTURES[0]))
    table = positions(both, layout)
    right = log_probs(both, layout, table)
    for part in range(3):
        (whole,) = layout.encodings
        changed = whole.clone()
        changed.view(len(whole), 3, -1)[:, part] = 0
        assert moved(right, log_probs(both, layout._replace(encodings=[changed]), table)) >= SENSITIVITY


def test_in_bfloat16(tmp_path: Path) -> None:
    exact = pair(tiny_qwen3_vl(tmp_path))
    rounded = exact._replace(model=load_model(Checkpoint.open(str(tmp_path)), dtype="bfloat16"))
    wide, narrow = (laid_out(each, bracketed(each, PICTURES[0])).encodings[0] for each in (exact, rounded))
    assert narrow.dtype is torch.bfloat16
    assert (narrow.float() - wide).norm() < 0.03 * wide.norm()
