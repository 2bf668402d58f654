"""The engine on a thread of this process: for tests, and for programs that need no server."""

import asyncio
import logging
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Event as Flag
from threading import Thread

from engine.base_client import BaseClient
from engine.client import EngineDead
from engine.driver import Outbox, drive
from engine.loop import Engine
from engine.messages import Command, EngineInfo, Event, Shutdown
from models.processing.base import PreparedMedia

logger = logging.getLogger(__name__)

MakeEngine = Callable[[Outbox], tuple[Engine, EngineInfo]]
"""Called on the engine's thread. The engine's emit and flush are the outbox's."""


class LocalClient(BaseClient):
    """An `EngineClient`. Made by `start`, used and closed on the same event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._commands: SimpleQueue[tuple[Command, PreparedMedia]] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._closed = Flag()
        self._thread: Thread

    @classmethod
    async def start(cls, make_engine: MakeEngine) -> "LocalClient":
        """Whatever make_engine raises is raised here."""
        client = cls()
        started: asyncio.Future[EngineInfo] = client._loop.create_future()
        client._thread = Thread(target=client._run, args=(make_engine, started), name="engine", daemon=True)
        client._thread.start()
        client._begin(await started)
        return client

    async def close(self) -> None:
        self._lose("the engine was shut down")
        self._closed.set()
        self._commands.put((Shutdown(), {}))
        await asyncio.to_thread(self._thread.join)

    # The channel, on the engine's thread.

    def receive(self, timeout_s: float) -> list[tuple[Command, PreparedMedia]]:
        received = []
        try:
            received.append(
                self._commands.get(timeout=timeout_s) if timeout_s else self._commands.get_nowait()
            )
            while True:
                received.append(self._commands.get_nowait())
        except Empty:
            return received

    def send(self, events: list[Event]) -> None:
        if not self._closed.is_set():
            self._loop.call_soon_threadsafe(self._receive, events)

    def _run(self, make_engine: MakeEngine, started: "asyncio.Future[EngineInfo]") -> None:
        outbox = Outbox(self)
        try:
            engine, info = make_engine(outbox)
        except BaseException as error:
            self._loop.call_soon_threadsafe(started.set_exception, error)
            return
        self._loop.call_soon_threadsafe(started.set_result, info)
        try:
            drive(engine, self, outbox, lambda: not self._closed.is_set())
        except Exception:
            logger.exception("the engine stopped")
            if not self._closed.is_set():
                self._loop.call_soon_threadsafe(self._lose, "the engine stopped")

    def _send(self, command: Command, arrays: PreparedMedia | None) -> None:
        if not self._alive:
            raise EngineDead("the engine is gone")
        self._commands.put((command, arrays or {}))
