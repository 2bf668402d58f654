"""Every kernel compiles for A100 and H100 without spilling registers, within the smallest card's memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from engine.attention.triton_kernels import tiles

pytest.importorskip("triton.backends.nvidia")

SHARED_BYTES_OF_THE_SMALLEST_CARD = 99 * 1024

LARGEST = f"{tiles.MAX_GROUP} 1 {tiles.MAX_HEAD_DIM}"
QUICK = [("bfloat16", "32 8 128"), ("bfloat16", LARGEST)]
SLOW = [
    (dtype, size)
    for dtype in ("bfloat16", "float16", "float32")
    for size in ("32 8 128", "14 2 64", "16 8 256", LARGEST, "64 1 128", "64 1 64", "32 1 256", "80 2 192")
    if (dtype, size) not in QUICK
]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_no_product_is_smaller_than_triton_takes(dtype: torch.dtype) -> None:
    """Older ones refuse to compile it, which the one that is installed may not show."""
    for kind in (tiles.decode_tile, tiles.tail_tile, tiles.prefill_tile):
        for group in range(1, tiles.MAX_GROUP + 1):
            for head_dim in range(8, tiles.MAX_HEAD_DIM + 1, 8):
                tile = kind(group, head_dim, dtype)
                assert min(tile.queries * tile.heads, tile.keys) >= tiles.MIN_DOT, (group, head_dim, tile)


# Six words of one thread, of a shape that only checkpoints in float32 with one key head have.
ALLOWED = {("float32", "64 1 128", "prefill_tile sm_90"): 24}


@pytest.mark.parametrize(
    ("dtype", "size"),
    [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)],
)
def test_every_kernel_compiles_without_spills(dtype: str, size: str, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "tests.engine.cross_compile", dtype, *size.split()]
    run = subprocess.run(
        command,
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    results = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(results) == 2 * 5  # cards, kernels
    for result in results:
        assert result["spilled_bytes"] <= ALLOWED.get((dtype, size, result["kernel"]), 0), result
        assert result["shared_bytes"] <= SHARED_BYTES_OF_THE_SMALLEST_CARD, result
