"""The engine in a process of its own, seen from the server's event loop. Needs no torch."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack

import msgspec
import zmq

from engine.base_client import BaseClient
from engine.client import EngineDead, EngineStartFailed
from engine.config import EngineConfig
from engine.messages import Command, EngineFailed, EngineInfo, Event, LoadProgress, Shutdown
from engine.threads import OPENMP
from engine.transport import decode_events, encode_command, has_message, pair, private_address
from models.processing.base import PreparedMedia

logger = logging.getLogger(__name__)

SHUTDOWN_S = 3.0


class ProcessClient(BaseClient):
    """An `EngineClient`. Made by `start`; `close` ends the process, and so does the death of this one."""

    def __init__(self) -> None:
        super().__init__()
        self._resources = ExitStack()
        self._rendezvous = ExitStack()
        """The socket's directory: removed once the two have met there, so sudden ends leave no trace."""
        self._socket: zmq.Socket
        self._process: asyncio.subprocess.Process
        self._watching: asyncio.Task[None]
        self._on_progress: Callable[[LoadProgress], None] | None = None
        self._started: asyncio.Future[EngineInfo]
        self._failure: EngineFailed | None = None
        self._draining = False

    @classmethod
    async def start(
        cls, config: EngineConfig, on_progress: Callable[[LoadProgress], None] | None = None
    ) -> "ProcessClient":
        """Start the process and wait until the model is loaded. Raises EngineStartFailed if it won't come
        up."""
        client = cls()
        client._on_progress = on_progress
        try:
            await client._launch(config)
            client._begin(await client._started)
            client._rendezvous.close()
        except BaseException:
            await client.close()
            raise
        return client

    async def close(self) -> None:
        """End the process, kindly at first. Open requests raise EngineDead. May be called again."""
        self._lose("the engine was shut down")
        if hasattr(self, "_process"):
            if self._process.returncode is None:
                self._transmit(Shutdown(), None)
            try:
                await asyncio.wait_for(self._process.wait(), SHUTDOWN_S)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
            await self._watching
        self._resources.close()
        self._rendezvous.close()

    async def _launch(self, config: EngineConfig) -> None:
        loop = asyncio.get_running_loop()
        self._started = loop.create_future()
        context = self._resources.enter_context(zmq.Context())
        try:
            address = self._rendezvous.enter_context(private_address())
            self._socket = self._resources.enter_context(pair(context, address, bind=True))
        except (OSError, zmq.ZMQError) as error:
            raise EngineStartFailed(f"no place for the engine's socket; set TMPDIR: {error}", 2) from error
        descriptor = int(self._socket.getsockopt(zmq.FD))
        loop.add_reader(descriptor, self._drain)
        self._resources.callback(loop.remove_reader, descriptor)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # a folder named engine where the server was started is not ours
            "-m",
            "engine.process",
            address,
            str(os.getpid()),
            msgspec.json.encode(config).decode(),
            stdin=asyncio.subprocess.DEVNULL,
            env=OPENMP | os.environ,
        )
        self._watching = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        code = await self._process.wait()
        self._drain()
        failure = self._failure or EngineFailed(_how_it_ended(code))
        if self._alive:
            logger.error("%s", failure.message)
        self._lose(failure.message)
        if not self._started.done():
            self._started.set_exception(EngineStartFailed(failure.message, failure.exit_code))
            self._started.exception()  # nobody may be waiting any more

    def _send(self, command: Command, arrays: PreparedMedia | None) -> None:
        if not self._alive:
            raise EngineDead("the engine is gone")
        self._transmit(command, arrays)

    def _transmit(self, command: Command, arrays: PreparedMedia | None) -> None:
        frames = encode_command(command, arrays)
        try:
            self._socket.send_multipart(frames, flags=zmq.NOBLOCK, copy=len(frames) == 1)
        except zmq.Again:
            return  # nobody is at the other end any more: `_watch` is about to tell all who wait
        # The descriptor reports a change once, and sending may have consumed the report of an event to read.
        if not self._draining:
            self._draining = True
            asyncio.get_running_loop().call_soon(self._drain)

    def _drain(self) -> None:
        self._draining = False
        while not self._socket.closed and has_message(self._socket):
            frame = self._socket.recv(flags=zmq.NOBLOCK)
            assert isinstance(frame, bytes)
            events = decode_events(frame)
            for event in events:
                self._follow_start(event)
            self._receive(events)

    def _follow_start(self, event: Event) -> None:
        match event:
            case LoadProgress() if self._on_progress is not None:
                self._on_progress(event)
            case EngineInfo() if not self._started.done():
                self._started.set_result(event)
            case EngineFailed():
                self._failure = event


def _how_it_ended(code: int) -> str:
    if code == -signal.SIGKILL:
        return "the engine's process was killed, as the kernel does when memory runs out"
    return f"the engine's process ended with status {code}"
