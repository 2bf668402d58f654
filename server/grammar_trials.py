"""Grammars tried out in processes of their own, so that what a request asks for costs no other one its
answer."""

import asyncio
import json
import os
import select
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from engine.messages import Grammar

NUM_WORKERS = 2
TRIAL_S = 3.0
"""What is used takes milliseconds."""
START_S = 30.0
TOO_COSTLY = f"it takes more than {TRIAL_S:g} s to compile"


class GrammarTrials:
    """Starts its workers when they are needed. close: may be called again."""

    def __init__(self, trial_s: float = TRIAL_S) -> None:
        self._trial_s = trial_s
        self._threads = ThreadPoolExecutor(NUM_WORKERS, thread_name_prefix="grammars")
        self._idle: list[_Worker] = []

    async def fault(self, grammar: Grammar) -> str:
        """What keeps the grammar from being enforced; "" if nothing does."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._try, grammar)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        while self._idle:
            self._idle.pop().end()

    def _try(self, grammar: Grammar) -> str:
        worker = self._idle.pop() if self._idle else _Worker()
        if not worker.alive:
            worker.end()
            worker = _Worker()
        try:
            found = worker.ask([grammar.kind, grammar.definition], self._trial_s)
        except (TimeoutError, OSError):
            worker.end()
            return TOO_COSTLY
        self._idle.append(worker)
        return found


class _Worker:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "server.grammar_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._answer(START_S)
        except BaseException:
            self.end()
            raise

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, question: list[str], timeout_s: float) -> str:
        """TimeoutError, or an OSError where the process has ended: it is of no more use then."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer(timeout_s)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):  # what was left to be written can't be
                pipe.close()

    def _answer(self, timeout_s: float) -> str:
        assert self._process.stdout is not None
        descriptor, line = self._process.stdout.fileno(), b""
        until = time.monotonic() + timeout_s
        poll = select.poll()  # select takes no descriptor beyond 1023, and a busy server has more
        poll.register(descriptor, select.POLLIN)
        while not line.endswith(b"\n"):
            if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
                raise TimeoutError
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                raise BrokenPipeError
            line += piece
        return json.loads(line)
