"""A reader that takes a whole answer too slowly, or not at all.

An answer whose request has ended is held by the transport alone, which would keep it for as long as the other
side keeps the connection open. Knows bytes and time.
"""

import asyncio
import logging

logger = logging.getLogger("intarsia")


class SlowReader:
    """Watches one connection. Within each `timeout_s` its reader must take half of what is left, or it is
    dropped."""

    def __init__(self, transport: asyncio.Transport, timeout_s: float) -> None:
        self._transport = transport
        self._timeout_s = timeout_s
        self._timer: asyncio.TimerHandle | None = None

    @property
    def num_unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def watch(self) -> None:
        """Until all that is to be sent now has been taken."""
        if self._timer is None and self.num_unsent_bytes:
            self._wait()

    def leave(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._timeout_s, self._look, self.num_unsent_bytes)

    def _look(self, num_bytes_before: int) -> None:
        self._timer = None
        if self.num_unsent_bytes * 2 > num_bytes_before:
            logger.warning("an answer's reader was too slow; its connection was dropped")
            self._transport.abort()
        elif self.num_unsent_bytes:
            self._wait()
