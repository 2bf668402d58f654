"""The life of the process: listen, load beside it, serve, start the engine again if it dies or hangs, drain,
leave.

    listening ── loaded ──> serving ── engine died, or gave no sign of life ──> loading again
        └────────── signal ────┴──> draining ── all finished, or --drain-timeout ──> exit

A signal turns readiness to 503 at once. Accepted requests finish; new ones get 503. A second signal ends it
quickly."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator

import uvicorn

from engine.allocator import keep_some_freed_memory
from engine.client import EngineClient, EngineStartFailed
from server.app import create_app
from server.banner import LoadDisplay, print_banner
from server.flags import SettingsError
from server.loading import load
from server.protocol import BoundedHttp, bounded_http
from server.settings import Settings
from server.state import ServerState

logger = logging.getLogger("intarsia")

WATCH_INTERVAL_S = 0.25
RESTART_PAUSE_S = 1.0
MAX_RESTARTS_IN_A_ROW = 3
CLOSE_S = 2
"""Seconds for connections to close once nothing runs any more."""
HARD_EXIT_S = 15.0
"""Beyond the drain's own time, after which the process ends whatever hangs."""


GC_THRESHOLDS = (20_000, 50, 100)
"""A long body makes a million objects at once. With Python's own thresholds they are all walked over again
and again while they are made, which nothing else can interrupt."""


class HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers: leaving has an order of its own here."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(settings: Settings) -> socket.socket:
    """SettingsError if the address can't be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"can't listen on {settings.host}:{settings.port}: {error.strerror or error}"
        ) from None
    return listener


class Launch:
    """One run of the server. `run` returns the exit code."""

    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self._settings = settings
        self._listener = listener
        self._state = ServerState(settings)
        self._signalled = asyncio.Event()
        self._hurried = asyncio.Event()
        config = uvicorn.Config(
            create_app(self._state),
            http=bounded_http(settings.send_timeout, settings.allowed_origins),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=CLOSE_S,
        )
        self._http = HttpServer(config)

    async def run(self) -> int:
        gc.set_threshold(*GC_THRESHOLDS)
        keep_some_freed_memory()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        http = asyncio.create_task(self._http.serve(sockets=[self._listener]))
        engine = asyncio.create_task(self._keep_engine())
        signalled = asyncio.create_task(self._signalled.wait())
        try:
            await asyncio.wait({http, engine, signalled}, return_when=asyncio.FIRST_COMPLETED)
            code = 0
            if engine.done():
                engine.result()
            elif signalled.done():
                code = await self._drain(engine)
            return code
        finally:
            await self._leave(http, engine, signalled)
            self._state.grammars.close()

    def _on_signal(self) -> None:
        if self._signalled.is_set():
            self._hurried.set()
            return
        self._state.draining = True
        self._signalled.set()
        logger.info("draining: %d requests are open; a second signal cuts them off", self._num_unfinished)
        # No timer of the loop: it may be closed by then, with the interpreter waiting for some thread.
        hard_exit = threading.Timer(self._settings.drain_timeout + HARD_EXIT_S, os._exit, (1,))
        hard_exit.daemon = True
        hard_exit.start()

    async def _keep_engine(self) -> None:
        """Load, watch, load again. Raises what is wrong if the first load fails, or too many later ones."""
        num_failures = 0
        while True:
            try:
                with LoadDisplay() as display:
                    runtime = await load(self._settings, display.update)
            except EngineStartFailed:
                num_failures += 1
                if self._state.num_loads == 0 or num_failures >= MAX_RESTARTS_IN_A_ROW:
                    raise
                await asyncio.sleep(RESTART_PAUSE_S)
                continue
            num_failures = 0
            self._state.runtime = runtime
            self._state.num_loads += 1
            if self._state.num_loads == 1:
                gc.collect()
                gc.freeze()  # modules and routes stay, and need not be walked again
                print_banner(self._settings, self._listener.getsockname()[1], runtime)
            try:
                await self._watch(runtime.engine)
            finally:
                self._state.runtime = None
                await runtime.close()
            await asyncio.sleep(RESTART_PAUSE_S)

    async def _watch(self, engine: EngineClient) -> None:
        """Until the engine is dead, or as good as dead."""
        while engine.alive:
            if engine.seconds_since_progress() > self._settings.engine_timeout:
                logger.error(
                    "no sign of life from the engine for %g s (--engine-timeout); starting it again",
                    self._settings.engine_timeout,
                )
                return
            await asyncio.sleep(WATCH_INTERVAL_S)
        logger.error("the engine died; starting it again")

    async def _drain(self, engine: asyncio.Task[None]) -> int:
        """0 if every accepted request reached its end, and its answer its reader's side. Those that are cut
        off are told so. Uploads that are not complete by then were never accepted."""
        tasks = self._http.server_state.tasks
        hurried = asyncio.create_task(self._hurried.wait())
        try:
            async with asyncio.timeout(self._settings.drain_timeout):
                while (tasks or self._num_unsent_answers) and not hurried.done():
                    await asyncio.wait({hurried}, timeout=0.05)
        except TimeoutError:
            logger.warning("the drain's time is up")
        finally:
            hurried.cancel()
        num_cut = self._num_unfinished + self._num_unsent_answers
        if num_cut:
            logger.error("%d requests are cut off", num_cut)
        if tasks:
            engine.cancel()  # which fails what is open in it: requests end with an error of their own
            await asyncio.wait({*tasks}, timeout=CLOSE_S)
        return int(num_cut > 0)

    @property
    def _num_unfinished(self) -> int:
        """Of the accepted requests, those that wait for a place included."""
        return self._state.telemetry.num_open + self._state.admission.num_waiting

    @property
    def _num_unsent_answers(self) -> int:
        """Whole ones whose request has ended, but which their readers have not taken."""
        connections = self._http.server_state.connections
        return sum(isinstance(each, BoundedHttp) and each.has_unsent_answer for each in connections)

    async def _leave(
        self, http: asyncio.Task[None], engine: asyncio.Task[None], *others: asyncio.Task[bool]
    ) -> None:
        self._state.draining = True
        self._http.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await http
        for task in (engine, *others):
            task.cancel()
        await asyncio.gather(engine, *others, return_exceptions=True)
