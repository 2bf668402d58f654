"""What only a real connection shows: cut streams, heartbeats, clients that leave or don't read, heads
without end."""

import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import openai
import pytest

from engine.client import RequestError
from server import protocol, stream
from server.body import PARSE_INLINE_BYTES
from tests.server.fakes import Bench, chat, say
from tests.server.live import serving

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"


def request(**fields: Any) -> bytes:
    body = json.dumps(chat(**fields)).encode()
    return HEAD + b"content-length: %d\r\n\r\n" % len(body) + body


def connect(port: int, data: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.sendall(data)
    return connection


def read_all(connection: socket.socket) -> bytes:
    received = b""
    try:
        while data := connection.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    return received


def read_until(connection: socket.socket, expected: bytes) -> bytes:
    received = b""
    while expected not in received and (data := connection.recv(65536)):
        received += data
    return received


def eventually(condition: Callable[[], object], timeout_s: float = 5) -> None:
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until, "did not come true in time"
        time.sleep(0.01)


def test_a_failure_after_tokens_is_an_error_event_and_a_broken_connection() -> None:
    bench = Bench(lambda _: [*say("Hello")[:3], RequestError("secret 0x7f00aabbccdd", "internal")])
    with serving(bench) as port, connect(port, request(stream=True)) as connection:
        received = read_all(connection)
        assert b'"error":' in received
        assert b"secret" not in received
        assert b"[DONE]" not in received
        assert not received.endswith(b"0\r\n\r\n"), "a clean end would look complete"
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x", max_retries=0)
        with pytest.raises(openai.APIError, match="failed"):
            list(client.chat.completions.create(**chat(), stream=True))
    bench.assert_idle()


def test_heartbeats_keep_a_long_prefill_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_S", 0.05)
    bench = Bench(lambda _: [0.5, *say("Hello")])
    with serving(bench) as port:
        client = openai.OpenAI(
            base_url=f"http://127.0.0.1:{port}/v1", api_key="x", timeout=0.3, max_retries=0
        )
        parts = list(client.chat.completions.create(**chat(), stream=True))
    assert "".join(part.choices[0].delta.content or "" for part in parts) == "Hello"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("half", [False, True], ids=["close", "half-close"])
def test_a_client_that_leaves_cancels_its_request(streamed: bool, half: bool) -> None:
    bench = Bench(lambda _: [*say("Hello")[:3], 60.0])
    with serving(bench) as port:
        connection = connect(port, request(stream=streamed))
        eventually(lambda: bench.engine.num_open)
        if streamed:
            assert b"assistant" in read_until(connection, b"assistant")
        if half:
            connection.shutdown(socket.SHUT_WR)
        else:
            connection.close()
        eventually(lambda: bench.engine.num_aborted == 1)
        eventually(lambda: bench.state.telemetry.num_open == 0)
        connection.close()
    assert bench.state.telemetry.num_cancelled == 1
    bench.assert_idle()


def test_a_client_that_leaves_the_queue_frees_its_place() -> None:
    bench = Bench(lambda _: [60.0], max_num_seqs=1)
    with serving(bench) as port:
        inside = [connect(port, request()) for _ in range(3)]
        eventually(lambda: bench.engine.num_open == 3)
        waiting = connect(port, request())
        eventually(lambda: bench.state.admission.num_waiting == 1)
        waiting.close()
        eventually(lambda: bench.state.admission.num_waiting == 0)
        for connection in inside:
            connection.close()
        eventually(lambda: bench.engine.num_open == 0)
    bench.assert_idle()


def test_a_reader_that_does_not_read_is_dropped_and_others_go_on() -> None:
    long = say("x" * 10)[:10] * 30_000
    slow = True

    def script(_: Any) -> list[Any]:
        return long if slow else say("quick")

    bench = Bench(script, send_timeout=0.3)
    with serving(bench) as port, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", port))
        connection.sendall(request(stream=True))
        eventually(lambda: bench.engine.num_open == 1)
        slow = False
        with connect(port, request()) as other:
            assert b"quick" in read_until(other, b"quick")
        eventually(lambda: bench.engine.num_aborted == 1, 20)
    bench.assert_idle()


def test_a_head_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Bench()) as port:
        connection = connect(port, HEAD)
        filler = b"x-filler: " + b"y" * 8000 + b"\r\n"
        try:
            for _ in range(120):
                connection.sendall(filler)
        except OSError:
            pass
        received = read_all(connection)
        connection.close()
        assert b" 431 " in received or received == b""
        monkeypatch.setattr(protocol, "HEAD_TIMEOUT_S", 0.1)
        with connect(port, b"POST / HT") as slow:
            assert read_all(slow) == b""


@pytest.mark.parametrize(
    "head", [b"content-length: 100000000\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n"]
)
def test_an_endless_body_gets_its_413(head: bytes) -> None:
    with serving(Bench(max_body_bytes=100_000)) as port:
        connection = connect(port, HEAD + head)
        stop = threading.Event()

        def pour() -> None:
            data = b"8000\r\n" + b"x" * 0x8000 + b"\r\n" if b"chunked" in head else b"x" * 0x8000
            try:
                while not stop.is_set():
                    connection.sendall(data)
            except OSError:
                pass

        thread = threading.Thread(target=pour)
        thread.start()
        received = read_until(connection, b"request_too_large")
        stop.set()
        thread.join()
        connection.close()
    assert b" 413 " in received


def test_a_length_that_lies() -> None:
    body = json.dumps(chat()).encode()
    bench = Bench(body_timeout=0.3)
    with serving(bench) as port:
        with connect(port, HEAD + b"content-length: %d\r\n\r\n" % (len(body) + 1) + body) as long:
            with connect(port, request()) as other:
                assert b" 200 " in read_until(other, b"Hello")
            assert b" 408 " in read_until(long, b"request_timeout")
        with connect(port, HEAD + b"content-length: %d\r\n\r\n" % (len(body) - 1) + body) as short:
            received = read_all(short)
            assert b" 400 " in received, "what is left over is no request"
            assert b" 200 " not in received
        eventually(lambda: bench.state.telemetry.num_open == 0)
    bench.assert_idle()


def test_nonsense_instead_of_http_is_400_in_openais_form() -> None:
    with serving(Bench()) as port, connect(port, b"GARBAGE\r\n\r\n") as connection:
        received = read_all(connection)
    assert b" 400 " in received
    assert set(json.loads(received.partition(b"\r\n\r\n")[2])["error"]) == {
        "message",
        "type",
        "param",
        "code",
    }


OFFERS = {
    "java": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAA\r\n",
    "websocket": b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n",
}


@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.parametrize("size", [1, 150, 1 << 20])
@pytest.mark.parametrize("chunked", [False, True])
def test_an_offer_of_another_protocol_is_passed_over(
    offer: str, size: int, chunked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """And the body read, in whatever pieces it comes; so is the next request on the same connection."""
    head, _, body = request().partition(b"\r\n\r\n")
    if chunked:
        head, body = HEAD + b"transfer-encoding: chunked", b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    bench = Bench()
    sent = (head + b"\r\n" + OFFERS[offer] + b"\r\n" + body) * 2
    with serving(bench) as port, connect(port, b"") as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(sent), size):
            connection.sendall(sent[start : start + size])
        received = b""
        while received.count(b'"system_fingerprint"') < 2:
            received += read_until(connection, b'"system_fingerprint"')
            assert b" 400 " not in received
    assert not caplog.records
    bench.assert_idle()


def test_connect_is_no_request_here() -> None:
    with serving(Bench()) as port, connect(port, b"CONNECT a:80 HTTP/1.1\r\nhost: a\r\n\r\n") as connection:
        assert b" 400 " in read_all(connection)


def test_health_answers_while_long_bodies_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The body is not understood before health has answered: on the event loop that would never be."""
    reading, answered = threading.Event(), threading.Event()

    def held(data: bytes) -> Any:
        reading.set()
        assert answered.wait(10)
        return json.loads(data)

    monkeypatch.setattr("server.body.parse_json", held)
    parts = [{"type": "text", "text": "x" * 50} for _ in range(20_000)]
    long = json.dumps({"model": "bytes", "messages": [{"role": "user", "content": parts}]}).encode()
    assert len(long) > PARSE_INLINE_BYTES
    with (
        serving(Bench()) as port,
        connect(port, HEAD + b"content-length: %d\r\n\r\n" % len(long) + long) as connection,
        connect(port, b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n") as other,
    ):
        assert reading.wait(10)
        for _ in range(3):
            assert b"ok" in read_until(other, b'{"status":"ok"}')
            other.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        answered.set()
        assert b" 400 " in read_until(connection, b"4096")
