"""Answers for clients that speak HTTP/1.0, such as proxies often do, or call it by a number that is none.

They know no chunks (RFC 9112, 6.1): an answer of unknown length ends where its connection does. Nor do they
know answers before the answer, `100 Continue` (RFC 9110, 10.1.1). uvicorn sends both to everyone.
"""

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class UntilClose:
    """ASGI middleware around one request, whose connection is closed behind its answer. cycle: what writes
    it."""

    def __init__(self, app: ASGIApp, cycle: RequestResponseCycle) -> None:
        self._app = app
        self._cycle = cycle
        cycle.keep_alive = False
        cycle.waiting_for_100_continue = False
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
