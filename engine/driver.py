"""Keeps an engine turning: commands from a channel, step after step, events back. Knows neither sockets nor
threads."""

from collections.abc import Callable
from typing import Protocol

from engine.loop import Engine
from engine.messages import Command, Event, Shutdown
from models.processing.base import PreparedMedia

IDLE_WAIT_S = 0.25
COMPILING_WAIT_S = 0.002


class Channel(Protocol):
    def receive(self, timeout_s: float) -> list[tuple[Command, PreparedMedia]]:
        """All commands that have come, in order; waits up to timeout_s for the first."""
        ...

    def send(self, events: list[Event]) -> None: ...


class Outbox:
    """Collects the events of a step, so that they leave as one message."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._events: list[Event] = []

    def emit(self, event: Event) -> None:
        self._events.append(event)

    def flush(self) -> None:
        if self._events:
            events, self._events = self._events, []
            self._channel.send(events)


def drive(engine: Engine, channel: Channel, outbox: Outbox, wanted: Callable[[], bool]) -> None:
    """Until Shutdown comes or nobody wants the engine any more, which closes it. Whatever a step lets out is
    let out."""
    busy = False
    try:
        while wanted():
            wait_s = 0.0 if busy else COMPILING_WAIT_S if engine.is_compiling else IDLE_WAIT_S
            for command, arrays in channel.receive(wait_s):
                if isinstance(command, Shutdown):
                    return
                engine.handle(command, arrays)
            outbox.flush()
            busy = engine.step()
            outbox.flush()
    finally:
        engine.close()
