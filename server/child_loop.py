"""A child process's end of the pipes: within limits, it answers one question after another while its parent
lives.

A message is a frame: the lengths of its two parts, then a head of JSON and a body of plain bytes.
"""

import ctypes
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

LENGTHS = struct.Struct("<IQ")
_PR_SET_PDEATHSIG = 1
_OOM_SCORE = "500"
KEPT_PART = 4
"""Of `max_bytes`: as much may stay in use after an answer."""


class Answer(NamedTuple):
    """body: pieces that are `num_bytes` together, made as they are sent."""

    head: Any
    num_bytes: int = 0
    body: Iterable[bytes | memoryview] = ()


def run(answer: Callable[[Any, bytes], Answer], parent_pid: int, max_bytes: int, limit_s: int) -> None:
    """Answer until the parent is gone. What the process has imported by now is all that it should need.

    max_bytes: of address space beyond what is in use now. limit_s: of processor time for one answer. Whoever
    exceeds them gets a MemoryError, or is ended. Where much memory stays in use after an answer, it was the
    last one: what libraries lose at one file would be missing for others.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # which reach whole groups; the server decides when to end
        signal.signal(number, signal.SIG_IGN)
    _die_with(parent_pid)
    questions, answers = _pipes()
    num_bytes = _address_space()
    _limit(resource.RLIMIT_AS, num_bytes + max_bytes)
    _limit(resource.RLIMIT_CORE, 0)
    with suppress(OSError):  # where memory runs out for all, this process is the one to go
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
    _send(answers, Answer(None))
    while lengths := questions.read(LENGTHS.size):
        _answer_one(answer, lengths, questions, answers, limit_s)
        if _address_space() > num_bytes + max_bytes // KEPT_PART:
            return


def _answer_one(
    answer: Callable[[Any, bytes], Answer], lengths: bytes, questions: BinaryIO, answers: int, limit_s: int
) -> None:
    """A function of its own, at whose end nothing is left of the question."""
    head_bytes, body_bytes = LENGTHS.unpack(lengths)
    head, body = json.loads(questions.read(head_bytes)), questions.read(body_bytes)
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + limit_s)
    _send(answers, answer(head, body))


def _pipes() -> tuple[BinaryIO, int]:
    """Standard input and output, to which nobody else can say anything from now on. From here on nobody
    listens to what decoders have to say on their standard error either."""
    nothing = os.open(os.devnull, os.O_RDWR)  # first: a server without standard error has left room for it
    questions, answers = open(os.dup(0), "rb"), os.dup(1)  # noqa: SIM115
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    return questions, answers


def _send(descriptor: int, answer: Answer) -> None:
    head = json.dumps(answer.head).encode()
    for piece in chain([LENGTHS.pack(len(head), answer.num_bytes) + head], answer.body):
        left = memoryview(piece)
        while left:
            left = left[os.write(descriptor, left) :]


def _limit(kind: int, most: int) -> None:
    """The soft one: a system may refuse to set it, and then goes without."""
    with suppress(OSError, ValueError):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _address_space() -> int:
    try:
        pages = Path("/proc/self/statm").read_text().split()[0]
    except OSError:
        return 1 << 30
    return int(pages) * resource.getpagesize()


def _die_with(parent_pid: int) -> None:
    """Even in the middle of an answer."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # it died before the kernel was told
        sys.exit(1)
