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
            )
        except OSError as error:
            raise NoChild(f"{module} can't be started: {error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout
        self._module, self._has_started = module, False
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
        is_given_up = _after(limit_s, is_cancelled)
        packed = json.dumps(head).encode()
        try:
            self._send(LENGTHS.pack(len(packed), len(body)) + packed, is_given_up)
            self._send(body, is_given_up)
            return self._receive(is_given_up)
        except BrokenPipeError:
            raise ChildEnded(self.end()) from None

    def end(self) -> int:
        """Its exit code. May be called again."""
        self._process.kill()
        for pipe in (self._questions, self._answers):
            pipe.close()
        return self._process.wait()

    def _await_start(self, is_cancelled: IsCancelled) -> None:
        try:
            self._receive(_after(START_S, is_cancelled))
        except (BrokenPipeError, TimeoutError) as error:
            if is_cancelled():
                raise TimeoutError from None
            ended = ChildEnded(self.end())
            if isinstance(error, BrokenPipeError) and ended.by_others:
                raise ended from None
            raise NoChild(f"{self._module} did not start: {ended}") from None
        self._has_started = True

    def _send(self, piece: bytes, is_given_up: IsCancelled) -> None:
        left = memoryview(piece)
        while left:
            self._wait(self._questions.fileno(), select.POLLOUT, is_given_up)
            left = left[os.write(self._questions.fileno(), left) :]

    def _receive(self, is_given_up: IsCancelled) -> Answer:
        head_bytes, body_bytes = LENGTHS.unpack(self._read(LENGTHS.size, is_given_up).data)
        head = json.loads(self._read(head_bytes, is_given_up).tobytes())
        return Answer(head, self._read(body_bytes, is_given_up))

    def _read(self, num_bytes: int, is_given_up: IsCancelled) -> np.ndarray:
        """Straight to where it stays: nothing is copied, or cleared before."""
        array = np.empty(num_bytes, np.uint8)
        left = array.data
        while left:
            self._wait(self._answers.fileno(), select.POLLIN, is_given_up)
            num_read = os.readv(self._answers.fileno(), [left])
            if not num_read:
                raise BrokenPipeError
            left = left[num_read:]
        return array

    def _wait(self, descriptor: int, event: int, is_given_up: IsCancelled) -> None:
        poll = select.poll()  # select takes no descriptor beyond 1023, and a busy server has more
        poll.register(descriptor, event)
        while not poll.poll(LOOK_S * 1000):
            if is_given_up():
                raise TimeoutError


def _after(limit_s: float, is_cancelled: IsCancelled) -> IsCancelled:
    until = time.monotonic() + limit_s
    return lambda: time.monotonic() >= until or is_cancelled()
