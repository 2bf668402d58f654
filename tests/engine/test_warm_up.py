from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from engine.config import EngineConfig
from engine.runner import build_runner
from engine.warm_up import warm_up
from kvcache.pages import EncodingStore
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
    encoded, held = [], []
    encode, put = model.encode, EncodingStore.put
    monkeypatch.setattr(model, "encode", lambda kind, items: encoded.append(kind) or encode(kind, items))
    monkeypatch.setattr(EncodingStore, "put", lambda self, *item: held.append(item[0]) or put(self, *item))
    warm_up(runner, num_blocks)
    assert set(encoded) == model.processing.kinds
    assert len(held) == len(encoded)
    for encoding in held:
        with pytest.raises(KeyError):
            runner._encodings.get(encoding)


def test_an_encoder_that_is_broken_is_found_before_a_request_meets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    path = checkpoints_qwen.tiny_qwen2_vl(tmp_path)
    model = load_model(Checkpoint.open(str(path)), dtype="float32")
    runner = build_runner(model, EngineConfig(model="tiny", num_threads=1), 8)
    encode = model.encode
    monkeypatch.setattr(model, "encode", lambda *item: [x * float("nan") for x in encode(*item)])
    with pytest.raises(ValueError, match="not finite"):
        warm_up(runner, 8)


def test_every_kernel_for_a_gpu_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the first request behind a long prefix waits for a compiler."""
    pytest.importorskip("triton", minversion="3.8")
    from engine.attention import triton_backend

    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    model = load_model(Checkpoint.open(str(checkpoints.tiny_llama(tmp_path))), dtype="float32")
    runner = build_runner(model, EngineConfig(model="tiny", attention_backend="triton"), 32)
    used, attend = [], triton_backend.attend
    monkeypatch.setattr(
        triton_backend, "attend", lambda spec, tile, *rest: used.append(tile) or attend(spec, tile, *rest)
    )
    warm_up(runner, 32)
    assert isinstance(runner.attention, triton_backend.TritonBackend)
    assert set(used) == set(runner.attention.tiles)
