"""How many blocks there are, from what is asked for and what is free."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine import memory
from engine.attention import sdpa
from engine.attention.triton_kernels.tiles import WORKSPACE_BYTES
from engine.config import EngineConfig
from engine.messages import SamplingParams
from engine.sampler import sample
from kvcache.sequence import BLOCK_SIZE
from models.interface import AttentionSpec
from models.processing.image import PatchedImages
from models.processing.qwen2_vl import Qwen2VLProcessing
from tests.engine.sequences import make_sequence
from tests.live_bytes import LiveBytes

SPEC = AttentionSpec(num_heads=4, num_kv_heads=2, head_dim=16, scale=0.25, windows=(None, None))
BLOCK_BYTES = 2 * 2 * BLOCK_SIZE * 2 * 16 * 4
MODEL: Any = SimpleNamespace(
    attention=SPEC, dtype=torch.float32, device=torch.device("cpu"), max_positions=1000, vocab_size=100
)
FREE_BYTES = 1000 * BLOCK_BYTES


@pytest.fixture(autouse=True)
def _free(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control group leaves so much of the machine's memory."""
    monkeypatch.setattr(memory, "memory_left_bytes", lambda: FREE_BYTES)


def blocks(**settings: int) -> int:
    return memory.num_blocks(MODEL, EngineConfig(model="", **settings))


def test_what_is_asked_for_in_whole_blocks() -> None:
    assert memory.block_bytes(MODEL) == BLOCK_BYTES
    assert blocks(kv_cache_bytes=100 * BLOCK_BYTES + 1) == 100
    assert blocks(kv_cache_bytes=FREE_BYTES) == 1000


def test_a_share_of_what_is_free_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert blocks() == memory.CPU_SHARE * 1000
    monkeypatch.setattr(memory, "CPU_MOST_BYTES", 70 * BLOCK_BYTES)
    assert blocks() == 70


def test_without_a_control_group_the_machine_is_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for left in (None, 1 << 60):
        monkeypatch.setattr(memory, "memory_left_bytes", lambda left=left: left)
        with pytest.raises(ValueError, match="are free beside the model"):
            blocks(kv_cache_bytes=1 << 50, max_model_len=1 << 50)


def sdpa_bytes(num_tokens: int) -> int:
    return sdpa.workspace_bytes(SPEC, torch.float32, num_tokens)


@pytest.mark.parametrize(
    ("backend", "max_model_len", "workspace"),
    [
        ("triton", 4096, WORKSPACE_BYTES + 3 * memory.GRAPH_BYTES),
        ("sdpa", 4096, sdpa_bytes(4096)),
        ("sdpa", 1 << 30, None),
    ],
)
def test_on_a_gpu_what_is_kept_for_other_uses_is_left_out(
    backend: str, max_model_len: int, workspace: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """workspace None: a sequence is no longer than what there is room for."""
    free, total = 1900 << 20, 2000 << 20
    monkeypatch.setattr(memory, "row_counts", lambda most: [1, 2, most])
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free, total))
    model: Any = SimpleNamespace(**vars(MODEL) | {"device": torch.device("cuda"), "max_positions": 1 << 30})
    config = EngineConfig(
        model="",
        encoder_cache_bytes=100 << 20,
        attention_backend=backend,
        max_model_len=max_model_len,
        max_num_seqs=1000,
    )
    logits = memory.SAMPLING_BYTES * config.max_num_seqs * MODEL.vocab_size
    left = free - int(memory.CUDA_RESERVE * total) - (100 << 20) - logits
    blocks = memory.num_blocks(model, config)
    if workspace is None:
        workspace = sdpa_bytes(blocks * BLOCK_SIZE)
    a_few = 4 * (BLOCK_BYTES + sdpa_bytes(BLOCK_SIZE) - sdpa_bytes(0))
    assert abs(left - workspace - blocks * BLOCK_BYTES) < a_few


@pytest.mark.parametrize("limits", [{}, {"top_p": 0.9}])
def test_sampling_takes_no_more_than_is_kept_for_it(limits: dict[str, float]) -> None:
    params = [SamplingParams(max_tokens=9, temperature=1.0, seed=seed, **limits) for seed in range(8)]
    with torch.no_grad(), LiveBytes() as live:
        logits = torch.zeros(8, 5000)
        sample(logits, [make_sequence([1], p) for p in params])
    assert live.peak <= memory.SAMPLING_BYTES * logits.numel() + 1000


def test_the_encoder_cache_holds_any_picture_of_a_wide_tower() -> None:
    """Sizes as published with Qwen3-VL 8B: three layers beside the last one, up to 16384 tokens."""
    images = PatchedImages(
        {"patch_size": 16, "size": {"shortest_edge": 256 * 256, "longest_edge": 4096 * 4096}}
    )
    model: Any = SimpleNamespace(
        processing=Qwen2VLProcessing(images, "", 0), encoding_width=4 * 4096, dtype=torch.bfloat16
    )
    room = memory.encoder_cache_bytes(model, EngineConfig(model=""))
    for size in ((4032, 3024), (5999, 4001), (1 << 13, 1 << 13), (1 << 12, 100_000)):
        assert images.layout(*size).num_tokens * model.encoding_width * 2 <= room < 600 << 20
    assert memory.encoder_cache_bytes(model, EngineConfig(model="", encoder_cache_bytes=1000)) == 1000
    model.encoding_width = 2048
    assert memory.encoder_cache_bytes(model, EngineConfig(model="")) == memory.ENCODER_CACHE_BYTES


def test_no_more_than_all_sequences_could_ever_use() -> None:
    longest = -(-100 // BLOCK_SIZE)
    assert blocks(kv_cache_bytes=FREE_BYTES, max_model_len=100, max_num_seqs=3) == 2 * 3 * longest


def test_too_few_are_refused_with_what_would_do() -> None:
    with pytest.raises(ValueError, match=f"at least {8 * BLOCK_BYTES / 2**20:.1f} MiB"):
        blocks(kv_cache_bytes=7 * BLOCK_BYTES)
    assert blocks(kv_cache_bytes=8 * BLOCK_BYTES) == 8
    with pytest.raises(ValueError, match=f"at least {3 * BLOCK_BYTES / 2**20:.1f} MiB"):
        blocks(kv_cache_bytes=2 * BLOCK_BYTES, max_model_len=3 * BLOCK_SIZE)
    assert blocks(kv_cache_bytes=3 * BLOCK_BYTES, max_model_len=3 * BLOCK_SIZE) == 3


def test_more_than_is_free_is_refused() -> None:
    with pytest.raises(ValueError, match="are free beside the model"):
        blocks(kv_cache_bytes=FREE_BYTES + BLOCK_BYTES)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."), True),
        (RuntimeError("shapes differ"), False),
    ],
)
def test_what_says_that_memory_is_short(error: Exception, expected: bool) -> None:
    assert memory.is_out_of_memory(error) is expected


@pytest.mark.parametrize(
    "settings",
    [
        {"max_num_seqs": 0},
        {"max_num_seqs": 64, "max_num_batched_tokens": 127},
        {"max_prefill_tokens_beside_decodes": BLOCK_SIZE - 1},
    ],
)
def test_budgets_that_could_stop_a_step_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least"):
        EngineConfig(model="", **settings)
