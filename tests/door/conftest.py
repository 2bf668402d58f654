"""One real `intarsia serve` process on loopback, on a tiny checkpoint that sees and hears."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import openai
import pytest

from tests.checkpoints_qwen import tiny_qwen2_5_omni

READY_WITHIN_S = 120


class Door(NamedTuple):
    """A served checkpoint. log: what the process wrote."""

    url: str
    directory: Path
    process: subprocess.Popen[bytes]
    log: Path

    def client(self, **settings: object) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, **settings)  # type: ignore[arg-type]

    def metrics(self) -> dict[str, float]:
        text = urllib.request.urlopen(f"{self.url}/metrics", timeout=5).read().decode()
        samples = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in samples}


def start(directory: Path, log: Path, *options: str) -> Door:
    """Start the server on a free port and wait until it is ready."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                str(Path(sys.executable).with_name("intarsia")),
                "serve",
                str(directory),
                "--port",
                "0",
                "--debug",
                *options,
            ],
            stdout=output,
            stderr=output,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        for line in log.read_text().splitlines():
            if line.startswith("ready at "):
                return Door(line.removeprefix("ready at ").removesuffix("/v1"), directory, process, log)
        time.sleep(0.05)
    process.kill()
    raise AssertionError(f"not ready: {log.read_text()}")


def stop(door: Door) -> int:
    door.process.send_signal(signal.SIGTERM)
    return door.process.wait(40)


@pytest.fixture(scope="session")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("door")
    directory = folder / "tiny-omni"
    directory.mkdir()
    tiny_qwen2_5_omni(directory)
    served = start(directory, folder / "server.log", "--max-image-pixels", "60000000")
    yield served
    assert stop(served) == 0


@pytest.fixture
def client(door: Door) -> openai.OpenAI:
    return door.client()


@pytest.fixture(autouse=True)
def aftermath(door: Door) -> Iterator[None]:
    """Whatever a test does, the server is healthy after it, and everything it held is given back."""
    yield
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        samples = door.metrics()
        busy = {k: v for k, v in samples.items() if v and k in BUSY_GAUGES}
        if not busy and samples["intarsia_engine_free_blocks"] == samples["intarsia_engine_blocks"]:
            break
        time.sleep(0.05)
    else:
        raise AssertionError(f"still busy: {busy}")
    with urllib.request.urlopen(f"{door.url}/ready", timeout=5) as response:
        assert response.status == 200


BUSY_GAUGES = {
    "intarsia_requests_open",
    "intarsia_requests_queued",
    "intarsia_engine_running",
    "intarsia_engine_waiting",
}


def error_of(door: Door, path: str, body: bytes, content_type: str = "application/json") -> tuple[int, dict]:
    """Status and error object of a request that must fail."""
    request = urllib.request.Request(f"{door.url}{path}", body, {"Content-Type": content_type})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=30)
    with caught.value as response:
        return response.status, json.loads(response.read())["error"]
