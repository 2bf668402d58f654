"""The engine in a process of its own: start, answer, die. Each start costs seconds, so tests share what they
can."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import pytest

from engine.client import EngineDead, EngineStartFailed
from engine.config import EngineConfig
from engine.process_client import ProcessClient
from tests.checkpoints import tiny_llama
from tests.engine.house import generate


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> EngineConfig:
    directory = tmp_path_factory.mktemp("tiny")
    tiny_llama(directory)
    return EngineConfig(model=str(directory), device="cpu", kv_cache_bytes=4 << 20, num_threads=1, debug=True)


async def no_media(key: bytes):
    raise AssertionError("asked for media")


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"


def test_start_answer_and_sudden_death(config, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def main() -> None:
        progress = []
        client = await ProcessClient.start(config, progress.append)
        try:
            assert client.alive
            assert not list(tmp_path.iterdir()), "a sudden end of the server would leave this behind"
            assert client.info.num_blocks > 100
            assert progress[-1].done_bytes == progress[-1].total_bytes > 0
            request = generate("r", range(40), max_tokens=5, temperature=0.0)
            cold = [event async for event in client.generate(request, no_media)]
            assert [event.finish_reason for event in cold] == ["", "", "", "", "length"]
            assert cold[0].num_cached_tokens == 0
            warm = [event async for event in client.generate(request, no_media)]
            assert warm[0].num_cached_tokens == 39
            assert [event.token_ids for event in warm] == [event.token_ids for event in cold]

            several = [
                client.generate(generate(f"s{i}", [i, 2], max_tokens=1500), no_media) for i in range(3)
            ]
            for events in several:
                await anext(events)
            os.kill(client._process.pid, signal.SIGKILL)
            started = time.monotonic()
            for events in several:
                with pytest.raises(EngineDead):
                    async for _ in events:
                        pass
            assert time.monotonic() - started < 2
            assert not client.alive
            with pytest.raises(EngineDead):
                await anext(client.generate(generate("late", [1]), no_media))
        finally:
            await client.close()
            await client.close()

    asyncio.run(main())


PARENT = """
import asyncio, sys, time
import msgspec
from engine.config import EngineConfig
from engine.process_client import ProcessClient

async def main():
    client = await ProcessClient.start(msgspec.json.decode(sys.argv[1], type=EngineConfig))
    print(client._process.pid, flush=True)
    time.sleep(60)

asyncio.run(main())
"""


def test_it_dies_with_its_parent(config) -> None:
    command = [sys.executable, "-c", PARENT, msgspec.json.encode(config).decode()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        assert exists(child)
        parent.kill()
    deadline = time.monotonic() + 5
    while exists(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not exists(child)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kv_cache_bytes": 1000}, "kv_cache_memory must be at least"),
        ({"model": "/nowhere/at/all"}, "nowhere"),
    ],
)
def test_settings_at_fault(config, changes, message) -> None:
    with pytest.raises(EngineStartFailed, match=message) as failure:
        asyncio.run(ProcessClient.start(msgspec.structs.replace(config, **changes)))
    assert failure.value.exit_code == 2


@pytest.mark.parametrize("place", ["missing", "much/too/long/for/a/socket/" + 9 * "0123456789"])
def test_no_place_for_the_socket(config, tmp_path, monkeypatch, place) -> None:
    directory = tmp_path / place
    if place != "missing":
        directory.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    with pytest.raises(EngineStartFailed, match="TMPDIR") as failure:
        asyncio.run(ProcessClient.start(config))
    assert failure.value.exit_code == 2
