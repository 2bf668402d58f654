"""Answers of unknown length for clients that speak HTTP/1.0, such as proxies often do.

They know no chunks (RFC 9112, 6.1): what such a client gets ends where its connection does. uvicorn sends
chunks to everyone.
"""

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class UntilClose:
    """ASGI middleware around one request, whose connection is closed behind its answer. cycle: what writes
    it."""

    def __init__(self, app: ASGIApp, cycle: RequestResponseCycle) -> None:
        self._app = app
        self._cycle = cycle
        self._has_length = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_unframed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._has_length = any(name == b"content-length" for name, _ in message.get("headers", ()))
            if not self._has_length:
                self._cycle.chunked_encoding = False
                self._cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await self._app(scope, receive, send_unframed)
