"""An engine that is gone is closed with all that belongs to it, before another one is loaded."""

import asyncio
import socket
from typing import Any

import pytest

from engine.client import EngineStartFailed
from server import launch
from server.launch import Launch
from server.runtime import Runtime
from server.settings import Settings
from tests.server.fakes import Bench


def test_what_is_lost_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    benches = [Bench(), Bench()]
    runtimes = [bench.state.serving() for bench in benches]
    for bench in benches:
        bench.engine.alive = False

    async def load(*_: Any) -> Runtime:
        if not runtimes:
            raise EngineStartFailed("no more", 1)
        return runtimes.pop(0)

    monkeypatch.setattr(launch, "load", load)
    monkeypatch.setattr(launch, "MAX_RESTARTS_IN_A_ROW", 1)
    monkeypatch.setattr(launch.gc, "freeze", lambda: None)
    monkeypatch.setattr(launch, "RESTART_PAUSE_S", 0)
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(EngineStartFailed):
        asyncio.run(Launch(Settings(), listener)._keep_engine())
    assert all(bench.engine.closed and bench.media.closed for bench in benches)
