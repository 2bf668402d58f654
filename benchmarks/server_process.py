"""Starts a server to be measured, waits until it answers, ends it with all its children."""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import psutil

from benchmarks.peers import Launch, launch


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


@contextmanager
def started(name: str, checkpoint: Path, port: int, log: Path, timeout_s: float = 900) -> Iterator[Server]:
    """Run the server for the length of the block. RuntimeError, naming the log, if it does not come up.

    OSError if the port is taken: whoever has it would be measured under this one's name."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
    how = launch(name, checkpoint, port)
    with log.open("ab") as output:
        _prepare(how, output, log)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
        start = time.perf_counter()
        process = subprocess.Popen(
            how.argv,
            env={**inherited, **how.environment},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        root = f"http://127.0.0.1:{port}"
        _wait_until_ready(process, root + how.ready_path, timeout_s, log)
        yield Server(name, f"{root}/v1", how.model, process, time.perf_counter() - start)
    finally:
        _end(process)


def _prepare(how: Launch, output: IO[bytes], log: Path) -> None:
    if how.preparation and not how.preparation[0].exists():
        try:
            subprocess.run(how.preparation[1], check=True, stdout=output, stderr=output)
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"the checkpoint could not be prepared, see {log}") from error


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
