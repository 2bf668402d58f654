"""A process of our own that answers one question after another, and whose end harms nobody else.

What it does is a module's `main`, which ends in `server.child_loop.run`.
"""

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from server.child_loop import LENGTHS

START_S = 30.0
LOOK_S = 0.05
"""How often whoever waits asks whether to go on."""
_PIPE_BYTES = 1 << 20
# The parent's own path, since the directory that it was started in may hold other packages of our names.
_PROGRAM = (
    "import sys; module, numbers = sys.argv[1], map(int, sys.argv[2:4]); sys.path[:] = sys.argv[4:]; "
    "from importlib import import_module; import_module(module).main(*numbers)"
)

# Nothing else of the server's own, which holds keys and tokens.
_ENVIRONMENT = frozenset({"HOME", "LANG", "PATH", "TMPDIR", "TZ"})
_ENVIRONMENTS = ("DYLD_", "GLIBC_", "LC_", "LD_", "MALLOC_", "MKL_", "OMP_", "OPENBLAS_", "PYTHON")

IsCancelled = Callable[[], bool]


class NoChild(Exception):
    """No process can be had."""


class ChildEnded(Exception):
    """exit_code: as subprocess has it."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"exit code {exit_code}")
        self.exit_code = exit_code

    @property
    def by_others(self) -> bool:
        """By the kernel for want of memory, say: this need not have to do with what was asked."""
        return self.exit_code in (-signal.SIGKILL, -signal.SIGTERM)


class Answer(NamedTuple):
    """body: uint8 [num_bytes]."""

    head: Any
    body: np.ndarray


class Child:
    """Protocol: from any thread, one at a time, `ask` until it raises; then, or at any time, `end`.

    It begins to start when it is made; the first answer waits until it has. Linux ends it with the *thread*
    that made it.
    """

    def __init__(self, module: str, max_bytes: int) -> None:
        """module: has a `main(parent_pid, max_bytes)`. NoChild if the system has no room for it."""
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, module, str(os.getpid()), str(max_bytes), *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env=_environment(),
                process_group=0,  # Ctrl-C in a terminal would end one that is still starting, noisily
            )
        except OSError as error:
            raise NoChild(f"{module} can't be started: {error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout
        self._module, self._max_bytes, self._has_started = module, max_bytes, False
        self.has_answered = False
        """Before: what an earlier question did to it may show at a later one."""
        os.set_blocking(self._questions.fileno(), False)
        for pipe in (self._questions, self._answers):
            with suppress(OSError, AttributeError):  # a system may have no larger ones, or no more of them
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def ask(self, head: Any, body: bytes, limit_s: float, is_cancelled: IsCancelled) -> Answer:
        """TimeoutError if it takes longer than `limit_s` or is cancelled, ChildEnded, NoChild if the process
        never came up."""
        if not self._has_started:
            self._await_start(is_cancelled)
        patience = _Patience.of(limit_s, is_cancelled)
        packed = json.dumps(head).encode()
        try:
            self._send(LENGTHS.pack(len(packed), len(body)) + packed, patience)
            self._send(body, patience)
            answer = self._receive(patience)
        except BrokenPipeError:
            raise ChildEnded(self.end()) from None
        self.has_answered = True
        return answer

    def end(self) -> int:
        """Its exit code. May be called again."""
        self._process.kill()
        for pipe in (self._questions, self._answers):
            pipe.close()
        return self._process.wait()

    def _await_start(self, is_cancelled: IsCancelled) -> None:
        try:
            self._receive(_Patience.of(START_S, is_cancelled))
        except (BrokenPipeError, TimeoutError) as error:
            if is_cancelled():
                raise TimeoutError from None
            ended = ChildEnded(self.end())
            if isinstance(error, BrokenPipeError) and ended.by_others:
                raise ended from None
            raise NoChild(f"{self._module} did not start: {ended}") from None
        self._has_started = True

    def _send(self, piece: bytes, patience: "_Patience") -> None:
        left = memoryview(piece)
        while left:
            patience.wait(self._questions.fileno(), select.POLLOUT)
            left = left[os.write(self._questions.fileno(), left) :]

    def _receive(self, patience: "_Patience") -> Answer:
        head_bytes, body_bytes = LENGTHS.unpack(self._read(LENGTHS.size, patience).data)
        if head_bytes + body_bytes > self._max_bytes:  # more than it can have: it is no longer our own
            raise BrokenPipeError
        head = json.loads(self._read(head_bytes, patience).tobytes())
        return Answer(head, self._read(body_bytes, patience))

    def _read(self, num_bytes: int, patience: "_Patience") -> np.ndarray:
        """Straight to where it stays: nothing is copied, or cleared before."""
        array = np.empty(num_bytes, np.uint8)
        left = array.data
        while left:
            patience.wait(self._answers.fileno(), select.POLLIN)
            num_read = os.readv(self._answers.fileno(), [left])
            if not num_read:
                raise BrokenPipeError
            left = left[num_read:]
        return array


class _Patience(NamedTuple):
    until: float
    """By the monotonic clock."""
    is_cancelled: IsCancelled

    @classmethod
    def of(cls, limit_s: float, is_cancelled: IsCancelled) -> "_Patience":
        return cls(time.monotonic() + limit_s, is_cancelled)

    def wait(self, descriptor: int, event: int) -> None:
        """TimeoutError when it is at its end, however much there is to read. Who cancels while there is some
        gets it: that costs less than another process."""
        poll = select.poll()  # select takes no descriptor beyond 1023, and a busy server has more
        poll.register(descriptor, event)
        is_ready = False
        while not is_ready:
            is_ready = bool(poll.poll(LOOK_S * 1000))
            if time.monotonic() >= self.until or (not is_ready and self.is_cancelled()):
                raise TimeoutError


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name in _ENVIRONMENT or name.startswith(_ENVIRONMENTS)
    }
