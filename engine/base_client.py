"""What both clients share: open requests, the last statistics, and a watch over the engine's progress."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from time import monotonic

from engine.client import MediaSource
from engine.messages import (
    Command,
    EngineInfo,
    EngineStats,
    Event,
    Generate,
    LoadProgress,
    Ping,
    Pong,
    TokensGenerated,
)
from engine.open_requests import OpenRequests
from models.processing.base import PreparedMedia

PING_INTERVAL_S = 1.0


class BaseClient(ABC):
    """Protocol for subclasses: `_begin` on the event loop once the engine is up, `_receive` for each batch of
    events, `_lose` when it is gone."""

    info: EngineInfo

    def __init__(self) -> None:
        self.stats = EngineStats()
        self._requests = OpenRequests(self._send)
        self._progress_at = self._ticked_at = monotonic()
        self._alive = False
        self._pinging: asyncio.Task[None] | None = None

    def generate(self, request: Generate, media: MediaSource) -> AsyncIterator[TokensGenerated]:
        return self._requests.generate(request, media)

    def stop_choice(self, request_id: str, choice: int) -> None:
        self._requests.stop_choice(request_id, choice)

    def abort(self, request_id: str) -> None:
        self._requests.abort(request_id)

    @property
    def alive(self) -> bool:
        return self._alive

    def seconds_since_progress(self) -> float:
        return min(monotonic(), self._ticked_at + 2 * PING_INTERVAL_S) - self._progress_at

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    def _send(self, command: Command, arrays: PreparedMedia | None) -> None: ...

    def _begin(self, info: EngineInfo) -> None:
        self.info = info
        self._alive = True
        self._progress_at = self._ticked_at = monotonic()
        self._pinging = asyncio.ensure_future(self._ping())

    def _receive(self, events: list[Event]) -> None:
        self._progress_at = monotonic()
        for event in events:
            if isinstance(event, EngineStats):
                self.stats = event
            elif not isinstance(event, Pong | LoadProgress | EngineInfo):
                self._requests.deliver(event)

    def _lose(self, why: str) -> None:
        self._alive = False
        if self._pinging is not None:
            self._pinging.cancel()
        self._requests.all_lost(why)

    async def _ping(self) -> None:
        """An engine that is idle, or whose requests all wait for media, sends nothing; its answer to this
        shows
        that it turns. Time in which this process itself stood still is not held against it."""
        while True:
            await asyncio.sleep(PING_INTERVAL_S)
            now = monotonic()
            self._progress_at += max(0.0, now - self._ticked_at - 2 * PING_INTERVAL_S)
            self._ticked_at = now
            if now - self._progress_at >= PING_INTERVAL_S / 2:
                self._send(Ping(), None)
