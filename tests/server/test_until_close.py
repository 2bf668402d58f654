"""Clients of HTTP/1.0 know no chunks: an answer whose length is not known ends with its connection."""

import json
from typing import Any

import pytest

from engine.client import RequestError
from tests.server.fakes import Bench, say
from tests.server.live import serving
from tests.server.test_stream_live import connect, read_all, request


def answer_to(data: bytes, bench: Bench) -> tuple[bytes, bytes]:
    """Head and body, up to where the server closes the connection."""
    with serving(bench) as port, connect(port, data) as connection:
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
    return head.lower(), body


def old(data: bytes) -> bytes:
    return data.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n")


@pytest.mark.parametrize("offer", [b"", b"connection: keep-alive\r\n"])
def test_a_stream_is_its_events_and_nothing_else(offer: bytes) -> None:
    data = old(request(stream=True)).replace(b"host: x\r\n", b"host: x\r\n" + offer)
    head, body = answer_to(data, Bench("Héllo"))
    assert b"transfer-encoding" not in head
    assert b"content-length" not in head
    assert b"connection: close" in head
    events = body.decode().split("\n\n")
    assert [event[:6] for event in events[:-1]] == ["data: "] * len(events[:-1])
    assert events[-2:] == ["data: [DONE]", ""]
    chunks: list[dict[str, Any]] = [json.loads(event[6:]) for event in events[:-2]]
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == "Héllo"


@pytest.mark.parametrize("version", [b"0.9", b"1.0", b"2.0"])
def test_nothing_comes_before_or_behind_it(version: bytes) -> None:
    """Neither `100 Continue` nor an answer to what was sent along: they could not be told from the stream."""
    fields = b"host: x\r\nconnection: keep-alive\r\nexpect: 100-continue\r\n"
    data = request(stream=True).replace(b"host: x\r\n", fields).replace(b"HTTP/1.1", b"HTTP/" + version)
    head, body = answer_to(data + data, Bench())
    assert head.startswith(b"http/1.1 200")
    assert body.endswith(b"data: [DONE]\n\n")
    assert body.count(b"[DONE]") == 1


def test_a_failure_in_a_stream_is_told_before_the_end() -> None:
    bench = Bench(lambda _: [*say("Hello")[:3], RequestError("broken", "internal")])
    _, body = answer_to(old(request(stream=True)), bench)
    assert b"\n\nevent: error\ndata: {" in body
    assert b"[DONE]" not in body


@pytest.mark.parametrize("fields", [{}, {"n": 0}], ids=["whole", "refused"])
def test_an_answer_of_known_length_says_so(fields: dict[str, Any]) -> None:
    head, body = answer_to(old(request(**fields)), Bench())
    assert f"content-length: {len(body)}".encode() in head
    json.loads(body)


@pytest.mark.parametrize("line", [b"HEAD / HTTP/1.0", b"GET /web/main.js HTTP/1.0", b"GET /none HTTP/1.0"])
def test_what_is_no_stream_is_as_ever(line: bytes) -> None:
    head, body = answer_to(line + b"\r\nhost: x\r\n\r\n", Bench())
    length = int(head.partition(b"content-length: ")[2].split()[0])
    assert length > 0
    assert len(body) == (0 if line.startswith(b"HEAD") else length)


def test_others_still_get_chunks() -> None:
    data = request(stream=True).replace(b"host: x\r\n", b"host: x\r\nconnection: close\r\n")
    head, body = answer_to(data, Bench())
    assert b"transfer-encoding: chunked" in head
    assert body.endswith(b"\r\n0\r\n\r\n")
