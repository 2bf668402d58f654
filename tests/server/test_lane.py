"""What holds the interpreter for long is done beside the event loop, one piece at a time."""

import asyncio
import base64
import hashlib
import threading
from typing import Any

import httpx
import pytest

from server import body, form, lane
from server.app import create_app
from server.media import source
from server.media.item import MediaPart
from tests.server.fakes import Bench, chat
from tests.server.test_transcriptions import URL, hearing

NUM_REQUESTS = 8


class Witness:
    """Stands before a function and counts how many of its calls run at once, and where."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._running = 0
        self.num_calls = 0
        self.most_at_once = 0
        self.threads: set[str] = set()

    def __call__(self, *args: Any) -> Any:
        self.num_calls += 1
        self._running += 1
        self.most_at_once = max(self.most_at_once, self._running)
        self.threads.add(threading.current_thread().name.partition("_")[0])
        try:
            return self._function(*args)
        finally:
            self._running -= 1


@pytest.mark.parametrize(("num_characters", "name"), [(100_000, "short"), (2_000_000, "long")])
def test_long_bodies_are_parsed_one_at_a_time(
    monkeypatch: pytest.MonkeyPatch, num_characters: int, name: str
) -> None:
    witness = Witness(body.parse_json)
    monkeypatch.setattr(body, "parse_json", witness)
    bench = Bench()

    async def run() -> None:
        transport = httpx.ASGITransport(create_app(bench.state))
        async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
            post = chat("x" * num_characters)
            requests = [client.post("/v1/chat/completions", json=post) for _ in range(NUM_REQUESTS)]
            assert {answer.status_code for answer in await asyncio.gather(*requests)} == {400}

    asyncio.run(run())
    assert (witness.num_calls, witness.most_at_once, witness.threads) == (NUM_REQUESTS, 1, {name})


def test_long_forms_are_parsed_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    witness = Witness(form._fields_of)
    monkeypatch.setattr(form, "_fields_of", witness)
    bench = hearing()

    async def run() -> None:
        transport = httpx.ASGITransport(create_app(bench.state))
        async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
            files = {"file": ("a.wav", bytes(2 * lane.LONG_BYTES))}
            requests = [client.post(URL, data={"model": "bytes"}, files=files) for _ in range(NUM_REQUESTS)]
            assert {answer.status_code for answer in await asyncio.gather(*requests)} == {200}

    asyncio.run(run())
    assert (witness.num_calls, witness.most_at_once, witness.threads) == (NUM_REQUESTS, 1, {"long"})


def test_long_uploads_are_decoded_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    witness = Witness(source._decoded)
    monkeypatch.setattr(source, "_decoded", witness)
    data = bytes(2 * lane.LONG_BYTES)
    part = MediaPart("image", "data:;base64," + base64.b64encode(data).decode())

    async def run() -> list[source.Encoded]:
        reader = source.SourceReader()
        reads = [reader.read(part, len(data), lambda _: None) for _ in range(NUM_REQUESTS)]
        return await asyncio.gather(*reads)

    assert set(asyncio.run(run())) == {source.Encoded(data, hashlib.sha256(data).digest())}
    assert (witness.num_calls, witness.most_at_once, witness.threads) == (NUM_REQUESTS, 1, {"long"})


def test_short_work_does_not_wait_for_long_work() -> None:
    async def run() -> None:
        done = threading.Event()
        long = asyncio.create_task(lane.in_lane(2 * lane.LONG_BYTES, lambda: done.wait(20)))
        await lane.in_lane(1, done.set)
        assert await long

    asyncio.run(run())
