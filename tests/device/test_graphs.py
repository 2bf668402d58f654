"""Decode steps as CUDA graphs on a GPU that is there. What a CPU can show of them: tests/engine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.device.devices import NO_GPU
from tests.proof.families import directory

COMPILED = """
import sys
from engine.attention.self_check import TOLERANCES
from engine.attention.triton_backend import INTERPRETED
from engine.attention.triton_kernels import tiles
from engine.config import EngineConfig
from engine.cuda_graph import CudaRecorder
from engine.graph_check import recorded_steps
from engine.runner import build_runner
from models.checkpoint import Checkpoint
from models.loader import load_model
from tests.engine.graph_steps import NUM_BLOCKS, check_replays

assert not INTERPRETED
tiles.PART_KEYS, tiles.FIXED_PROGRAMS = 32, 6  # so few blocks: several parts, and programs that stride
model = load_model(Checkpoint.open(sys.argv[1]), dtype=sys.argv[2], device="cuda")
runner = build_runner(model, EngineConfig(model="", attention_backend="triton"), NUM_BLOCKS)
graphs = recorded_steps(model, runner.attention, runner.pages, NUM_BLOCKS, CudaRecorder(model.device))
assert graphs is not None
check_replays(runner, graphs, TOLERANCES[model.dtype])
"""


@NO_GPU
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["qwen2", "gemma3_text", "qwen2_5_omni"])
def test_replays_equal_launches(name: str, dtype: str) -> None:
    """In a process of its own: in this one the kernels run in Triton's interpreter."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", COMPILED, str(directory(name)), dtype]
    run = subprocess.run(
        command, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
