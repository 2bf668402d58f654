"""Answers on their way to the client: whole or as server-sent events, watched for a client that leaves.

Measured behaviour of the official client decides the form: no `id:` lines, no empty data, comments as
heartbeats, usage last, and a stream that fails is broken off after its error event, since a clean end would
look complete."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
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


class ClientLeft(Exception):
    """The connection is gone, or its reader too slow: nobody waits for the rest."""


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
    connection."""

    def __init__(self, body: AsyncGenerator[bytes, None], send_timeout_s: float) -> None:
        self._body = body
        self._send_timeout_s = send_timeout_s
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left = asyncio.ensure_future(_disconnected(receive))
        try:
            await self._run(left, send)
        except ClientLeft:
            abort = scope.get("extensions", {}).get(ABORT_EXTENSION)
            if abort is not None:
                abort()
        finally:
            await _cancel(left)
            await self._body.aclose()

    async def _run(self, left: asyncio.Future[None], send: Send) -> None:
        try:
            prepared = False
            while True:
                chunk = await self._next(left, send, HEARTBEAT_S if prepared else None)
                if chunk is None:
                    break
                if chunk == PREPARED:
                    prepared = True
                else:
                    await self._send(send, chunk)
        except ClientLeft:
            raise
        except Exception as error:
            if not self._started:
                raise error if isinstance(error, ApiError) else as_api_error(error) from None
            await self._send(send, b"event: error\n" + sse({"error": as_api_error(error).fields()}))
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next(self, left: asyncio.Future[None], send: Send, heartbeat_s: float | None) -> bytes | None:
        """The body's next chunk, None at its end; heartbeats in between."""
        step = asyncio.ensure_future(anext(self._body, None))
        try:
            while True:
                await asyncio.wait({step, left}, timeout=heartbeat_s, return_when=asyncio.FIRST_COMPLETED)
                if step.done():
                    return step.result()
                if left.done():
                    raise ClientLeft
                await self._send(send, _PING)
        finally:
            await _cancel(step)

    async def _send(self, send: Send, data: bytes) -> None:
        """Waits for a slow reader, but not forever: what waits is bounded by one chunk and the socket's
        buffer."""
        try:
            async with asyncio.timeout(self._send_timeout_s):
                if not self._started:
                    self._started = True
                    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except TimeoutError:
            logger.warning("a stream's reader was too slow; its connection was dropped")
            raise ClientLeft from None


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancel(*tasks: "asyncio.Future[Any]") -> None:
    """Cancel and wait, so that nothing of the request is left when its response returns."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
