"""How long an engine has been silent, as its client sees it."""

import asyncio
import time

import pytest

from engine import base_client
from engine.base_client import BaseClient
from engine.messages import EngineInfo, Ping, Pong

INFO = EngineInfo("A", "float32", "cpu", "sdpa", 100, 10, 16, 100, 100)


class Wire(BaseClient):
    """Answers pings while `answers`."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = True
        self._begin(INFO)

    async def close(self) -> None:
        self._lose("closed")

    def _send(self, command, arrays) -> None:
        if isinstance(command, Ping) and self.answers:
            asyncio.get_running_loop().call_soon(self._receive, [Pong()])


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_client, "PING_INTERVAL_S", 0.05)


def test_an_idle_engine_that_hangs_is_noticed() -> None:
    async def main() -> None:
        wire = Wire()
        await asyncio.sleep(0.5)
        assert wire.seconds_since_progress() < 0.2
        wire.answers = False
        await asyncio.sleep(0.5)
        assert wire.seconds_since_progress() > 0.3
        wire.answers = True
        await asyncio.sleep(0.15)
        assert wire.seconds_since_progress() < 0.2
        await wire.close()

    asyncio.run(main())


def test_time_in_which_this_process_stood_still_does_not_count() -> None:
    async def main() -> None:
        wire = Wire()
        await asyncio.sleep(0.1)
        for _ in range(3):
            time.sleep(0.6)  # noqa: ASYNC251 - as a stopped process does
            assert wire.seconds_since_progress() < 0.2
            await asyncio.sleep(0)
            assert wire.seconds_since_progress() < 0.2
            await asyncio.sleep(0.15)
        await wire.close()

    asyncio.run(main())
