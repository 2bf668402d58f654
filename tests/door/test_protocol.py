"""Refusals by a real server: in the right words, everywhere, and without a trace in what others get."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import openai
import pytest

from tests.door.conftest import Door, error_of
from tests.door.test_openai_client import MODEL, ask, text


@pytest.mark.parametrize("field", ["logit_bias", "stop_token_ids"])
def test_a_wild_token_id_does_not_touch_its_neighbour(door: Door, client: openai.OpenAI, field: str) -> None:
    options = {"max_completion_tokens": 150, "logprobs": True, "extra_body": {"ignore_eos": True}}
    alone = ask(client, text(f"Neighbour of {field}"), **options).choices[0]
    with ThreadPoolExecutor(1) as pool:
        neighbour = pool.submit(ask, client, text(f"Neighbour of {field}"), **options)
        for token_id in (2**31, 2**31 - 1, 1_000_000, -1):
            value = {str(token_id): 100} if field == "logit_bias" else [token_id]
            body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}], field: value}
            status, error = error_of(door, "/v1/chat/completions", json.dumps(body).encode())
            assert (status, error["param"].partition("[")[0]) == (400, field)
        together = neighbour.result().choices[0]
    assert together.message.content == alone.message.content
    assert together.logprobs == alone.logprobs


RAW = {
    "unknown path": (b"GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n", 404),
    "another method": (b"DELETE /v1/chat/completions HTTP/1.1\r\nhost: x\r\n\r\n", 405),
    "another case": (b"POST /V1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n", 404),
    "two slashes": (b"POST //v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n", 404),
    "a slash at the end": (
        b"POST /v1/chat/completions/ HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n",
        404,
    ),
    "too large": (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        b"content-length: 9999999999\r\n\r\n",
        413,
    ),
    "absurdly large": (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        b"content-length: 99999999999999999999999999\r\n\r\n",
        400,
    ),
    "a form": (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: text/plain\r\n"
        b"content-length: 2\r\n\r\n{}",
        415,
    ),
    "a long header": (b"GET /health HTTP/1.1\r\nx: " + b"y" * 100_000 + b"\r\n\r\n", 431),
    "no http": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    "two lengths": (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
        400,
    ),
    "a bad chunk": (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        b"transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        400,
    ),
}


@pytest.mark.parametrize("case", RAW)
def test_every_refusal_has_the_four_keys(door: Door, case: str) -> None:
    data, status = RAW[case]
    head, body = exchange(door, data)
    assert head.split(b" ")[1] == str(status).encode(), head
    assert b"content-type: application/json" in head.lower()
    assert set(json.loads(body)) == {"error"}
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["code"]


def exchange(door: Door, data: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer to raw bytes."""
    address = urlsplit(door.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        connection.sendall(data)
        received = b""
        while b"\r\n\r\n" not in received or not _is_whole(received):
            more = connection.recv(65536)
            if not more:
                break
            received += more
    head, _, body = received.partition(b"\r\n\r\n")
    return head, body


def _is_whole(received: bytes) -> bool:
    head, _, body = received.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(lengths) and len(body) >= int(lengths[0].partition(b":")[2])
