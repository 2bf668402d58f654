"""The requests that a client has open: events to the iterators that wait for them, media tensors to the
engine.

Knows no transport: `send` takes a command to wherever the engine is. Everything runs on the event loop's
thread.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

from engine.client import EngineDead, MediaSource, RequestError
from engine.messages import (
    Abort,
    Command,
    Event,
    Generate,
    MediaNeeded,
    MediaPrepared,
    MediaUnavailable,
    RequestFailed,
    StopChoice,
    TokensGenerated,
)
from engine.transport import array_specs
from models.processing.base import MediaError, PreparedMedia

logger = logging.getLogger(__name__)

Send = Callable[[Command, PreparedMedia | None], None]


class _OpenRequest:
    """events: in order; the exception that ends them, if one does. flights: its media in preparation.
    unfinished: choices that more is to come of."""

    __slots__ = ("events", "flights", "media", "unfinished")

    def __init__(self, media: MediaSource, num_choices: int) -> None:
        self.media = media
        self.unfinished = set(range(num_choices))
        self.events: asyncio.Queue[TokensGenerated | Exception] = asyncio.Queue()
        self.flights: set[asyncio.Task[None]] = set()


class OpenRequests:
    """Protocol: generate -> deliver* -> (the last choice ends | the iterator is closed | all_lost)."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._open: dict[str, _OpenRequest] = {}
        self._lost: str | None = None

    def __len__(self) -> int:
        return len(self._open)

    async def generate(self, request: Generate, media: MediaSource) -> AsyncIterator[TokensGenerated]:
        """As `EngineClient.generate`. RequestError for an id that is open already."""
        if self._lost is not None:
            raise EngineDead(self._lost)
        if request.request_id in self._open:
            raise RequestError(f"request id {request.request_id} is in use", "invalid_request")
        opened = self._open[request.request_id] = _OpenRequest(media, request.num_choices)
        try:
            self._send(request, None)
            while opened.unfinished:
                event = await opened.events.get()
                if isinstance(event, Exception):
                    opened.unfinished.clear()
                    raise event
                if event.choice not in opened.unfinished:
                    continue
                if event.finish_reason:
                    opened.unfinished.discard(event.choice)
                yield event
        finally:
            self._close(request.request_id, opened, abort=bool(opened.unfinished))

    def stop_choice(self, request_id: str, choice: int) -> None:
        """As `EngineClient.stop_choice`. Finished or unknown: no-op."""
        opened = self._open.get(request_id)
        if opened is not None and choice in opened.unfinished and self._lost is None:
            opened.unfinished.discard(choice)
            self._send(StopChoice(request_id, choice), None)

    def abort(self, request_id: str) -> None:
        """The request's iterator ends with RequestError. Unknown or finished: no-op."""
        opened = self._open.get(request_id)
        if opened is not None and self._lost is None:
            self._send(Abort(request_id), None)
            opened.events.put_nowait(RequestError("the request was aborted", "aborted"))

    def deliver(self, event: Event) -> None:
        """Events of requests that are closed already are dropped."""
        match event:
            case TokensGenerated():
                if opened := self._open.get(event.request_id):
                    opened.events.put_nowait(event)
            case RequestFailed():
                if opened := self._open.get(event.request_id):
                    opened.events.put_nowait(RequestError(event.message, event.code, event.param))
            case MediaNeeded():
                if opened := self._open.get(event.request_id):
                    flight = asyncio.ensure_future(self._prepare(opened.media, event))
                    opened.flights.add(flight)
                    flight.add_done_callback(opened.flights.discard)

    def all_lost(self, why: str) -> None:
        """The engine is gone: every open request, and every later one, raises EngineDead."""
        if self._lost is None:
            self._lost = why
            for opened in self._open.values():
                opened.events.put_nowait(EngineDead(why))

    async def _prepare(self, media: MediaSource, needed: MediaNeeded) -> None:
        try:
            arrays = await media(needed.key)
        except MediaError as error:
            self._unavailable(needed, error.code, str(error))
        except Exception:
            logger.exception("preparing media for %s", needed.request_id)
            self._unavailable(needed, "internal", "the server failed to prepare a media item")
        else:
            if self._lost is None:
                self._send(MediaPrepared(needed.namespace, needed.key, array_specs(arrays)), arrays)

    def _unavailable(self, needed: MediaNeeded, code: str, message: str) -> None:
        if self._lost is None:
            self._send(MediaUnavailable(needed.request_id, needed.namespace, needed.key, code, message), None)

    def _close(self, request_id: str, opened: _OpenRequest, abort: bool) -> None:
        del self._open[request_id]
        for flight in opened.flights:
            flight.cancel()
        if abort and self._lost is None:
            self._send(Abort(request_id), None)
