"""Answers on their way to the client: whole or as server-sent events, watched for a client that leaves.

Measured behaviour of the official client decides the form: no `id:` lines, no empty data, comments as
heartbeats, usage last, and a stream that fails is broken off after its error event, since a clean end would
look complete."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from time import monotonic
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from server.errors import ApiError, as_api_error

logger = logging.getLogger("intarsia")

PREPARED = b""
"""A body yields this once all that can be wrong with its request would have been raised."""
DONE = b"data: [DONE]\n\n"
HEARTBEAT_S = 2.0
ABORT_EXTENSION = "intarsia.abort"
"""ASGI extension of `server.protocol`: drops the connection with what it has not sent."""

_PING = b": ping\n\n"
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


def sse(data: Any) -> bytes:
    return b"data: " + orjson.dumps(data) + b"\n\n"


class WholeResponse:
    """ASGI response: runs `work`, sends its JSON, or a string as plain text. A client that leaves cancels
    it."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        work = asyncio.ensure_future(self._work())
        left = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({work, left}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                return
            result = work.result()
            is_text = isinstance(result, str)
            body = result.encode() if is_text else orjson.dumps(result)
        finally:
            await _cancel(work, left)
        content_type = b"text/plain; charset=utf-8" if is_text else b"application/json"
        headers = [(b"content-type", content_type), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class EventStream:
    """ASGI response: sends what `body` yields. Until it yields PREPARED, and a moment longer for the engine
    to refuse, errors are raised for a proper status; after that they become an error event and a broken
    connection.

    One task for the answer and one that looks on from time to time, so that a token costs one wake-up."""

    def __init__(self, body: AsyncGenerator[bytes, None], send_timeout_s: float) -> None:
        self._body = body
        self._send_timeout_s = send_timeout_s
        self._turn = asyncio.Lock()
        self._prepared = self._started = False
        self._sending_since: float | None = None
        self._quiet_since = monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = asyncio.ensure_future(self._answer(send))
        others = asyncio.ensure_future(_disconnected(receive)), asyncio.ensure_future(self._look_on(send))
        try:
            await asyncio.wait({answer, *others}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                answer.result()
            elif abort := scope.get("extensions", {}).get(ABORT_EXTENSION):
                abort()
        finally:
            await _cancel(answer, *others)
            await self._body.aclose()

    async def _answer(self, send: Send) -> None:
        try:
            async for chunk in self._body:
                if chunk == PREPARED:
                    self._prepared, self._quiet_since = True, monotonic()
                else:
                    await self._send(send, chunk)
        except Exception as error:
            if not self._started:
                raise error if isinstance(error, ApiError) else as_api_error(error) from None
            await self._send(send, b"event: error\ndata: " + as_api_error(error).body() + b"\n\n")
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _look_on(self, send: Send) -> None:
        """Heartbeats while there is nothing to send. Returns when the reader is too slow: what waits for it
        is bounded by one chunk and the socket's buffer, and it is not waited for for ever."""
        while True:
            now = monotonic()
            if self._sending_since is not None and now - self._sending_since >= self._send_timeout_s:
                logger.warning("a stream's reader was too slow; its connection was dropped")
                return
            is_quiet = self._prepared and self._sending_since is None
            if is_quiet and now - self._quiet_since >= HEARTBEAT_S:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._send_timeout_s):
                        await self._send(send, _PING)
            await asyncio.sleep(min(HEARTBEAT_S, self._send_timeout_s) / 2)

    async def _send(self, send: Send, data: bytes) -> None:
        async with self._turn:
            self._sending_since = monotonic()
            if not self._started:
                self._started = True
                await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await send({"type": "http.response.body", "body": data, "more_body": True})
            self._sending_since, self._quiet_since = None, monotonic()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancel(*tasks: "asyncio.Future[Any]") -> None:
    """Cancel and wait, so that nothing of the request is left when its response returns."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
