"""Bodies that are not what they should be: refused with a reason, never with a failure."""

import asyncio
import tracemalloc
from typing import Any

import pytest

from server.body import MAX_DEPTH, parse_json
from server.errors import BadRequest
from tests.server.chat_client import URL, client, post
from tests.server.fakes import Bench, chat

GOOD = '{"model": "bytes", "messages": [{"role": "user", "content": "hi"}]'


@pytest.mark.parametrize(
    "body",
    [
        '"text"',
        "[1]",
        "42",
        "null",
        "",
        "{",
        GOOD,
        GOOD + ', "temperature": NaN}',
        GOOD + ', "temperature": Infinity}',
        GOOD + ', "temperature": 1e999}',
        GOOD + ', "temperature": -1e999}',
        GOOD + ', "n": 1, "n": 1}',
        "[" * 100_000,
        '{"a":' * 100_000,
        GOOD + ', "user": "\\ud83d"}',
        GOOD + ', "\\ud83d": 1}',
        GOOD.encode() + b', "user": "\xff\xfe"}',
        "\ufeff" + GOOD + "}",
        GOOD + ', "n": ' + "9" * 5000 + "}",
        GOOD + "} x",
        (GOOD + "}").encode("utf-16"),
    ],
    ids=lambda body: repr(body[:40]),
)
def test_what_is_not_plain_json_is_400(body: str | bytes) -> None:
    response = post(Bench(), body)
    assert response.status_code == 400, response.text
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("stream", [False, True])
def test_nul_and_surrogate_pairs_are_text(stream: bool) -> None:
    body = GOOD.replace("hi", "\\u0000 \\ud83d\\ude00") + ', "stream": %s}'
    assert post(Bench(), body % str(stream).lower()).status_code == 200


@pytest.mark.parametrize(
    "content_type",
    [
        "application/x-www-form-urlencoded",
        "",
        "application/json; charset=utf-16",
        "text/plain",
        "multipart/form-data",
    ],
)
def test_other_content_types_are_415(content_type: str) -> None:
    assert post(Bench(), GOOD + "}", headers={"content-type": content_type}).status_code == 415


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", 'Application/JSON; Charset="UTF-8"']
)
def test_json_by_any_spelling(content_type: str) -> None:
    assert post(Bench(), GOOD + "}", headers={"content-type": content_type}).status_code == 200


def test_a_large_body_is_413_before_it_is_read() -> None:
    async def endless() -> Any:
        while True:
            yield b"x" * 65536

    async def run() -> int:
        async with client(Bench(max_body_bytes=100_000)) as http:
            response = await http.post(URL, content=endless(), headers={"content-type": "application/json"})
            return response.status_code

    assert asyncio.run(run()) == 413
    assert post(Bench(max_body_bytes=100), chat("x" * 200)).status_code == 413


def test_a_slow_body_is_408() -> None:
    async def slow() -> Any:
        while True:
            await asyncio.sleep(0.01)
            yield b" "

    async def run() -> int:
        async with client(Bench(body_timeout=0.1)) as http:
            return (
                await http.post(URL, content=slow(), headers={"content-type": "application/json"})
            ).status_code

    assert asyncio.run(run()) == 408


def test_depth_is_bounded_exactly() -> None:
    parse_json(b"[" * MAX_DEPTH + b"1" + b"]" * MAX_DEPTH)
    with pytest.raises(BadRequest):
        parse_json(b"[" * (MAX_DEPTH + 1) + b"1" + b"]" * (MAX_DEPTH + 1))


@pytest.mark.parametrize("value", ["{}", "[]", "0", '{"a":1}'])
def test_a_body_of_very_many_values_is_refused_before_any_is_made(value: str) -> None:
    body = '{"model": "bytes", "messages": [' + ",".join([value] * 1_100_000) + "]}"
    tracemalloc.start()
    try:
        response = post(Bench(), body)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert response.status_code == 400
    assert "too many values" in response.json()["error"]["message"]
    assert peak_bytes < 8 * len(body)
