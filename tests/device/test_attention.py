"""Back ends agree on every device, the GPU's own compiled for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from engine.attention.reference import ReferenceBackend
from engine.attention.sdpa import SdpaBackend
from engine.attention.self_check import check_agreement
from models.interface import AttentionSpec
from models.switches import set_switches
from tests.device.devices import DEVICES, NO_GPU

set_switches()

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


class TiledSdpa(SdpaBackend):
    scores_at_once = 5000


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", [SdpaBackend, TiledSdpa])
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(4, 4, 64), (6, 2, 80)])
def test_sdpa_agrees_with_the_reference(
    backend: type[SdpaBackend], dtype: torch.dtype, heads: int, kv_heads: int, head_dim: int, device: str
) -> None:
    spec = AttentionSpec(heads, kv_heads, head_dim, head_dim**-0.5, (None,))
    check_agreement(backend, ReferenceBackend, spec, dtype, torch.device(device))


COMPILED = """
import torch
from engine.attention.sdpa import SdpaBackend
from engine.attention.self_check import check_agreement
from engine.attention.triton_backend import INTERPRETED, TritonBackend
from models.interface import AttentionSpec
from models.switches import set_switches

assert not INTERPRETED
set_switches()
for heads, kv_heads, head_dim in ((4, 4, 64), (6, 2, 80), (28, 4, 128)):
    spec = AttentionSpec(heads, kv_heads, head_dim, head_dim**-0.5, (None,))
    check_agreement(TritonBackend, SdpaBackend, spec, torch.{dtype}, torch.device("cuda"))
"""


@NO_GPU
@pytest.mark.parametrize("dtype", DTYPES)
def test_compiled_kernels_agree_with_sdpa(dtype: torch.dtype) -> None:
    """In a process of its own: in this one the kernels run in Triton's interpreter."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    program = COMPILED.format(dtype=str(dtype).removeprefix("torch."))
    command = [sys.executable, "-c", program]
    run = subprocess.run(
        command, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
