"""The engine's process: `python -m engine.process ADDRESS PARENT_PID CONFIG_JSON`. Started by
`ProcessClient`.

It lives no longer than its parent: the kernel kills it when the parent dies, and it looks for itself whenever
idle.
"""

import ctypes
import gc
import logging
import os
import signal
import sys
from time import monotonic

import msgspec
import zmq

from engine.config import EngineConfig
from engine.driver import Outbox, drive
from engine.messages import Command, EngineFailed, Event, LoadProgress
from engine.transport import decode_command, encode_events, has_message, pair
from models.checkpoint import CheckpointError
from models.processing.base import PreparedMedia

logger = logging.getLogger(__name__)

PROGRESS_INTERVAL_S = 0.1
_PR_SET_PDEATHSIG = 1


class SocketChannel:
    """A `driver.Channel` over the socket that the server bound."""

    def __init__(self, socket: zmq.Socket) -> None:
        self._socket = socket

    def receive(self, timeout_s: float) -> list[tuple[Command, PreparedMedia]]:
        received: list[tuple[Command, PreparedMedia]] = []
        if timeout_s:
            self._socket.poll(int(timeout_s * 1000))
        while has_message(self._socket):
            received.append(decode_command(self._socket.recv_multipart(flags=zmq.NOBLOCK, copy=False)))
        return received

    def send(self, events: list[Event]) -> None:
        self._socket.send(encode_events(events))


class LoadReporter:
    """Tells the server how far loading has come, not more often than a person can read."""

    def __init__(self, channel: SocketChannel) -> None:
        self._channel = channel
        self._due = 0.0
        self._total_bytes = 0

    def __call__(self, done_bytes: int, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        if monotonic() >= self._due:
            self._due = monotonic() + PROGRESS_INTERVAL_S
            self._channel.send([LoadProgress(done_bytes, total_bytes)])

    def finish(self) -> None:
        """All is loaded that is needed; a checkpoint may hold more."""
        self._channel.send([LoadProgress(self._total_bytes, self._total_bytes)])


def main() -> int:
    address, parent_pid, config_json = sys.argv[1:]
    # Ctrl-C reaches the whole group; the server decides when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with(int(parent_pid))
    config = msgspec.json.decode(config_json, type=EngineConfig)
    logging.basicConfig(
        level=logging.DEBUG if config.debug else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    if not config.debug:  # its remarks on published configurations tell a user nothing
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    with zmq.Context() as context, pair(context, address, bind=False) as socket:
        return _serve(config, SocketChannel(socket), int(parent_pid))


def _serve(config: EngineConfig, channel: SocketChannel, parent_pid: int) -> int:
    outbox, reporter = Outbox(channel), LoadReporter(channel)
    try:
        from engine.assembly import assemble  # takes seconds, and what it raises is to be reported

        engine, info = assemble(config, outbox, reporter)
    except (ValueError, CheckpointError) as error:
        logger.debug("starting the engine", exc_info=True)
        channel.send([EngineFailed(str(error), exit_code=2)])
        return 2
    except Exception as error:
        from engine.memory import is_out_of_memory

        if is_out_of_memory(error):
            logger.debug("starting the engine", exc_info=True)
            channel.send(
                [EngineFailed("there is too little memory for this model and its caches", exit_code=2)]
            )
            return 2
        logger.exception("the engine can't start")
        channel.send([EngineFailed(f"the engine can't start: {type(error).__name__}")])
        return 1
    # What is there now stays: the collector need not walk a million objects of torch's again and again.
    gc.collect()
    gc.freeze()
    reporter.finish()
    channel.send([info])
    try:
        drive(engine, channel, outbox, lambda: os.getppid() == parent_pid)
    except Exception:
        logger.exception("the engine can't go on")
        channel.send([EngineFailed("the engine failed and can't go on")])
        return 1
    return 0


def _die_with(parent_pid: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # it died before the kernel was told
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
