"""A process that does what it is told to, and tells about itself."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from server import child_loop

MB = 1 << 20
_kept: list[bytearray] = []
_is_damaged = False


def main(parent_pid: int, max_bytes: int) -> None:
    child_loop.run(_answer, parent_pid, max_bytes, limit_s=60)


def _answer(word: str, body: bytes) -> child_loop.Answer:
    global _is_damaged
    if _is_damaged:
        os.abort()
    match word:
        case "environment":
            return child_loop.Answer(dict(os.environ))
        case "group":
            return child_loop.Answer(os.getpgrp())
        case "end":
            os.abort()
        case "be damaged":
            _is_damaged = True
        case "keep":
            _kept.append(bytearray(300 * MB))
        case "claim":
            return child_loop.Answer(None, 1 << 50)
        case "drip":
            return child_loop.Answer(None, MB, _drops())
    return child_loop.Answer(os.getpid())


def _drops() -> Iterator[bytes]:
    while True:
        yield b"."
        time.sleep(0.001)


def resident_bytes(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
