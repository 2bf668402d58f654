"""The life of the process, with a real engine: serving, an engine that is killed, draining, hurried and
early ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.checkpoints import tiny_llama

pytestmark = pytest.mark.slow

ENDLESS = {"ignore_eos": True, "stream": True}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("llama"))


class Running:
    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port

    def get(self, path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as response:
                return response.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def complete(self, num_tokens: int) -> bytes:
        body = {
            "model": "m",
            "prompt": "the dog",
            "max_tokens": num_tokens,
            "ignore_eos": True,
            "stream": True,
        }
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.read()

    def wait_ready(self) -> None:
        until = time.monotonic() + 60
        while True:
            with suppress(OSError):
                if self.get("/ready") == 200:
                    return
            assert time.monotonic() < until
            assert self.process.poll() is None
            time.sleep(0.1)

    def children(self) -> list[int]:
        found = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True)
        return [int(pid) for pid in found.stdout.split()]


@contextmanager
def running(checkpoint: Path, *flags: str, log: int = subprocess.DEVNULL) -> Iterator[Running]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "server.cli", "serve", str(checkpoint), "--port", str(port)]
    command += ["--served-model-name", "m", "--device", "cpu", "--threads", "1", "--kv-cache-memory", "16MiB"]
    process = subprocess.Popen([*command, *flags], stderr=log)
    try:
        yield Running(process, port)
    finally:
        process.kill()
        process.wait()


def gone(pid: int) -> bool:
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_a_killed_engine_is_started_again_and_a_drain_finishes_all(
    checkpoint: Path,
) -> None:
    with running(checkpoint) as server:
        server.wait_ready()
        assert b"[DONE]" in server.complete(4)
        (engine,) = server.children()
        os.kill(engine, signal.SIGKILL)
        time.sleep(0.6)
        assert server.get("/ready") == 503
        assert server.get("/health") == 200
        server.wait_ready()
        (engine,) = server.children()
        answers: list[bytes] = []
        asking = threading.Thread(target=lambda: answers.append(server.complete(400)))
        asking.start()
        while b"requests_open 1" not in _metrics(server):
            time.sleep(0.005)
        server.process.send_signal(signal.SIGTERM)
        with suppress(OSError):
            assert server.get("/ready") == 503
        asking.join()
        assert b"[DONE]" in answers[0]
        assert server.process.wait(20) == 0
        assert gone(engine)


def _metrics(server: Running) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=10) as response:
        return response.read()


def ask_endlessly(server: Running, stream: bool) -> socket.socket:
    body = json.dumps(
        {"model": "m", "prompt": "a", "max_tokens": 4000, "ignore_eos": True, "stream": stream, "n": 8}
    )
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
    return connection


def everything(connection: socket.socket) -> bytes:
    with connection:
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


@pytest.mark.parametrize("signals", [1, 2])
def test_who_is_cut_off_is_told_so(checkpoint: Path, signals: int) -> None:
    """By the end of the drain's time, or by a second signal."""
    with running(checkpoint, "--drain-timeout", "60" if signals == 2 else "0.2") as server:
        server.wait_ready()
        whole, stream = ask_endlessly(server, stream=False), ask_endlessly(server, stream=True)
        assert stream.recv(100)
        while b"requests_open 2" not in _metrics(server):
            time.sleep(0.005)
        for _ in range(signals):
            server.process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        answer, events = everything(whole), everything(stream)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b'"code":"engine_unavailable"' in answer
        assert b"event: error" in events
        assert b"[DONE]" not in events
        assert server.process.wait(10) == 1


def test_a_signal_while_loading_ends_it(checkpoint: Path) -> None:
    with running(checkpoint) as server:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with suppress(OSError):
                server.get("/health")
                break
            time.sleep(0.05)
        children = server.children()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
        assert all(gone(child) for child in children)


def test_a_log_that_nobody_reads_any_more(checkpoint: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with running(checkpoint, log=writing) as server:
        os.close(writing)
        server.wait_ready()
        assert b"[DONE]" in server.complete(4)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
