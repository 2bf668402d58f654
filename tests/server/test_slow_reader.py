"""A whole answer is not kept for ever for a reader that does not take it."""

import asyncio
import socket
from collections.abc import Callable

import pytest
from starlette.types import Receive, Scope, Send

from server.errors import BadRequest, error_response
from server.slow_reader import SlowReader
from tests.server.live import serving_app
from tests.server.test_stream_live import eventually


class Transport:
    """Its reader has left so many bytes each time that someone looks."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = list(sizes)
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        return self.sizes[0]

    def abort(self) -> None:
        self.aborted = True


class Loop:
    """Time passes when the test says so, and the reader takes something meanwhile."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._due: list[tuple[Callable[[int], None], int]] = []

    def call_later(self, after_s: float, callback: Callable[[int], None], size: int) -> "Loop":
        self._due.append((callback, size))
        return self

    def cancel(self) -> None:
        self._due.clear()

    def pass_time(self) -> bool:
        if not self._due:
            return False
        callback, size = self._due.pop()
        self._transport.sizes.pop(0)
        callback(size)
        return True


@pytest.mark.parametrize(
    ("sizes", "aborted", "num_looks"),
    [
        ((0,), False, 0),
        ((100, 0), False, 1),
        ((100, 50, 25, 0), False, 3),
        ((100, 100), True, 1),
        ((100, 51), True, 1),
        ((100, 50, 49), True, 2),
        ((1, 1), True, 1),
    ],
)
def test_half_of_it_each_time(
    sizes: tuple[int, ...], aborted: bool, num_looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = Transport(*sizes)
    loop = Loop(transport)
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    reader = SlowReader(transport, 1.0)  # type: ignore[arg-type]
    reader.watch()
    reader.watch()
    looks = 0
    while loop.pass_time():
        looks += 1
    assert (transport.aborted, looks) == (aborted, num_looks)


def test_a_connection_that_is_gone_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = Transport(100, 100)
    loop = Loop(transport)
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    reader = SlowReader(transport, 1.0)  # type: ignore[arg-type]
    reader.watch()
    reader.leave()
    assert not loop.pass_time()


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    body = b"x" * (32 << 20)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


async def _refusal(scope: Scope, receive: Receive, send: Send) -> None:
    await error_response(BadRequest("x" * (32 << 20)))(scope, receive, send)


@pytest.mark.parametrize("app", [_answer, _refusal])
@pytest.mark.parametrize("connection", [b"keep-alive", b"close"])
def test_an_answer_that_nobody_reads_is_dropped(app: object, connection: bytes) -> None:
    with serving_app(app, 0.1) as (port, server), socket.socket() as client:  # type: ignore[arg-type]
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: " + connection + b"\r\n\r\n")
        eventually(lambda: server.server_state.total_requests)
        eventually(lambda: not server.server_state.connections, 20)
