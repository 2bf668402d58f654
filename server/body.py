"""A request's body: bounded while it arrives, then JSON stricter than Python's own.

Knows bytes and JSON; not what the JSON means.
"""

import asyncio
import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from starlette.requests import ClientDisconnect, Request

from server.errors import BadRequest, PayloadTooLarge, RequestTimeout, UnsupportedMedia
from server.lane import in_lane
from server.long_strings import lift, put_back
from server.open_bodies import held_body

MAX_DEPTH = 100
MAX_SEPARATORS = 1_000_000
"""Braces, brackets and commas in a body. A value of two bytes becomes an object of a hundred: without a
bound, 60 MB of empty objects take gigabytes. In strings they count too: no context holds that many."""
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
PARSE_INLINE_BYTES = 32 << 10
"""Longer bodies are parsed beside the event loop: health checks must not wait for them."""

T = TypeVar("T")


async def read_json(request: Request, max_bytes: int, timeout_s: float, understand: Callable[[Any], T]) -> T:
    """`understand` applied to the body's JSON, beside the event loop where the body is long.
    PayloadTooLarge before it is buffered; BadRequest for whatever is not plain JSON."""
    check_content_type(request, "application/json")
    body = await read_body(request, max_bytes, timeout_s)
    if len(body) <= PARSE_INLINE_BYTES:
        return understand(parse_json(body))
    return await in_lane(len(body), lambda: understand(parse_json(body)))


def check_content_type(request: Request, expected: str) -> None:
    """UnsupportedMedia for any other type, or for text in any other encoding than UTF-8."""
    content_type = request.headers.get("content-type", "")
    kind, *options = (part.strip().lower() for part in content_type.split(";"))
    charset = next(
        (option.removeprefix("charset=").strip('"') for option in options if option.startswith("charset=")),
        "utf-8",
    )
    if kind != expected or charset not in ("utf-8", "utf8"):
        raise UnsupportedMedia(f"Content-Type must be {expected}, in UTF-8.")


async def read_body(request: Request, max_bytes: int, timeout_s: float) -> bytearray:
    """Not copied once it is there: it may be long.

    PayloadTooLarge before more than `max_bytes` are held, RequestTimeout if they come too slowly, Unavailable
    if others hold the memory.
    """
    too_large = f"The request body is larger than {max_bytes} bytes."
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 18 or int(length) > max_bytes):
        raise PayloadTooLarge(too_large)
    body, held = bytearray(), held_body(request)
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                if len(body) + len(chunk) > max_bytes:
                    raise PayloadTooLarge(too_large)
                held.grow(len(chunk))
                body += chunk
    except TimeoutError:
        raise RequestTimeout(f"The request body did not arrive within {timeout_s:g} s.") from None
    except ClientDisconnect:
        raise BadRequest("The client left before its request was complete.", code="client_closed") from None
    return body


def parse_json(body: bytes | bytearray) -> Any:
    """RFC 8259, without duplicate keys, lone surrogates, numbers beyond float64, or nesting deeper than
    MAX_DEPTH."""
    lifted = lift(body)
    if lifted is not None:
        with suppress(BadRequest):  # whatever is wrong is told of the text as it came
            value = _parsed(lifted.rest)
            if isinstance(value, dict | list) and put_back(value, body, lifted):
                return value
    return _parsed(body)


def _parsed(body: bytes | bytearray) -> Any:
    if sum(body.count(separator) for separator in b"{[,") > MAX_SEPARATORS:
        raise _invalid("it holds too many values")
    try:
        text = body.decode("utf-8")
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite_float
        )
        _check_depth(value)
        if _SURROGATE_ESCAPE.search(body):
            _check_strings(value)
    except UnicodeDecodeError:
        raise _invalid("it is not UTF-8") from None
    except RecursionError:
        raise _invalid("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise _invalid(f"{error.msg[:100]} at character {error.pos}") from None
    except ValueError:
        raise _invalid("a number is too long") from None
    return value


def _invalid(reason: str) -> BadRequest:
    return BadRequest(f"The request body is not valid JSON: {reason}.", code="invalid_json")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _invalid("a key appears twice in one object")
    return value


def _refuse_constant(_: str) -> NoReturn:
    raise _invalid("NaN and Infinity are not JSON")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _invalid("a number is out of range")
    return value


def _check_depth(root: Any) -> None:
    """Level by level, since depth is what a hostile body would use against recursion."""
    level = [root]
    for _ in range(MAX_DEPTH + 1):
        deeper: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                deeper.extend(value.values())
            elif isinstance(value, list):
                deeper.extend(value)
        if not deeper:
            return
        level = deeper
    raise _invalid("it is nested too deeply")


def _check_strings(root: Any) -> None:
    """UTF-8 can't hold half of a surrogate pair, but an escape can write one."""
    try:
        json.dumps(root, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise _invalid("a string holds half of a surrogate pair") from None
