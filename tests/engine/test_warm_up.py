from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from engine.config import EngineConfig
from engine.runner import build_runner
from engine.warm_up import warm_up
from models.checkpoint import Checkpoint
from models.loader import load_model
from tests import checkpoints, checkpoints_qwen, checkpoints_qwen_audio

FAMILIES = (
    checkpoints.tiny_llama,
    checkpoints.tiny_ultravox,
    checkpoints_qwen.tiny_qwen2_vl,
    checkpoints_qwen.tiny_qwen3_vl,
    checkpoints_qwen.tiny_qwen2_5_omni,
    checkpoints_qwen_audio.tiny_qwen2_audio,
)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("num_blocks", [1, 8])
def test_every_kind_of_media_and_a_prompt_are_computed_once(
    family: Callable[[Path], Path], num_blocks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    model = load_model(Checkpoint.open(str(family(tmp_path))), dtype="float32")
    runner = build_runner(model, EngineConfig(model="tiny", num_threads=1), num_blocks)
    encoded = []
    encode = model.encode
    monkeypatch.setattr(model, "encode", lambda kind, items: encoded.append(kind) or encode(kind, items))
    warm_up(model, runner.attention, num_blocks)
    assert set(encoded) == model.processing.kinds
