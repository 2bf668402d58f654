"""The server's view of an engine. Implemented over ZeroMQ by
`process_client.ProcessClient`, and in this process by `local_client.LocalClient`."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from engine.messages import EngineInfo, EngineStats, Generate, TokensGenerated
from models.processing.base import PreparedMedia

MediaSource = Callable[[bytes], Awaitable[PreparedMedia]]
"""Prepare the media with this key, now. Called only if the engine needs the tensors; raises MediaError if it
can't."""


class RequestError(Exception):
    """The engine refused or lost one request. `code` and `param` as in messages.RequestFailed."""

    def __init__(self, message: str, code: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


class EngineDead(Exception):
    """The engine's process is gone or never came up."""


class EngineStartFailed(EngineDead):
    """The engine didn't come up. exit_code as in messages.EngineFailed: 2 if the settings are at fault."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class EngineClient(Protocol):
    info: EngineInfo
    stats: EngineStats

    def generate(self, request: Generate, media: MediaSource) -> AsyncIterator[TokensGenerated]:
        """Events of all choices as they come. Raises RequestError or EngineDead. Closing the iterator aborts
        the request."""
        ...

    def stop_choice(self, request_id: str, choice: int) -> None:
        """Enough of one choice: no more is computed of it and no more events of it come. Call it where an
        event was received from `generate`, before the next is asked for; the iterator ends with the last
        choice."""
        ...

    def abort(self, request_id: str) -> None: ...

    @property
    def alive(self) -> bool: ...

    def seconds_since_progress(self) -> float:
        """Since the engine last finished a step or answered a ping; about a second at most while all is
        well, idle or not."""
        ...

    async def close(self) -> None: ...
