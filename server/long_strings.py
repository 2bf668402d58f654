"""Long strings lifted out of a JSON text before it is parsed, and put back into what comes of it.

A parser lets nothing else run while it goes through a string of tens of megabytes, and so do the checks
before it. But a data URL is plain characters from quote to quote, in which nothing is to be unescaped: it can
be looked through in slices and taken as it is. What seems such a string and is none shows when it is to be
put back; then the text must be parsed as it came.
"""

import secrets
from collections.abc import Iterator
from typing import Any, NamedTuple

LONG = 1 << 18
"""Characters from which it is worth it; what is twice as long is always found."""
_MAX_REST = 1 << 20
_SLICE = 1 << 20
_PLAIN = bytes(byte for byte in range(0x20, 0x7F) if byte not in b'"\\')


class Lifted(NamedTuple):
    """rest: the JSON text with names in the strings' places. strings: where they were, by name."""

    rest: bytes
    strings: dict[str, tuple[int, int]]


def lift(body: bytes | bytearray) -> Lifted | None:
    """None where there is nothing to be gained."""
    pieces: list[bytes] = []
    strings: dict[str, tuple[int, int]] = {}
    done = 0
    with memoryview(body) as view:
        for start, end in _stretches(body):
            if not _is_plain(view[start:end]):
                continue
            name = secrets.token_hex(16)
            strings[name] = (start, end)
            pieces += [bytes(view[done:start]), name.encode()]
            done = end
        if not strings or len(body) - sum(end - start for start, end in strings.values()) > _MAX_REST:
            return None
        pieces.append(bytes(view[done:]))
    return Lifted(b"".join(pieces), strings)


def put_back(value: Any, body: bytes | bytearray, lifted: Lifted) -> bool:
    """In place. False, and `value` of no use, where one of them was no whole string value."""
    left = dict(lifted.strings)
    waiting = [value]
    with memoryview(body) as view:
        while waiting:
            holder = waiting.pop()
            for key, item in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
                if isinstance(item, dict | list):
                    waiting.append(item)
                elif isinstance(item, str) and item in left:
                    start, end = left.pop(item)
                    holder[key] = str(view[start:end], "ascii")
    return not left


def _stretches(body: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Between two neighbouring quotes far apart. Looks only here and there."""
    position = 0
    while position < len(body):
        end = body.find(b'"', position)
        if end < 0:
            return
        if end - position < LONG:
            position += LONG
            continue
        start = body.rfind(b'"', max(0, position - LONG), position) + 1
        if start:
            yield start, end
        position = end + 1


def _is_plain(view: memoryview) -> bool:
    """Whether a string holds only ASCII that stands for itself."""
    return not any(
        bytes(view[start : start + _SLICE]).translate(None, _PLAIN) for start in range(0, len(view), _SLICE)
    )
