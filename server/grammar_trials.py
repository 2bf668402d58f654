"""Grammars tried out in processes of their own, so that what a request asks for costs no other one its
answer."""

import asyncio
import hashlib
import json
import logging
import math
import os
import select
import subprocess
import sys
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

from engine.messages import Grammar
from server.errors import Unavailable

logger = logging.getLogger("intarsia")

NUM_WORKERS = 2
TRIAL_S = 3.0
"""What is used takes milliseconds."""
WAIT_S = 10.0
"""For a worker, while others' grammars are tried out."""
START_S = 30.0
TOO_COSTLY = "it takes too much time or memory to compile"
MAX_REMEMBERED = 2048
SUSPECTED_S = 60.0
"""How long a grammar is held to be too costly: on a busy machine a good one may take too long once."""


class _Found(NamedTuple):
    fault: str
    until: float
    """By the monotonic clock."""


class GrammarTrials:
    """Starts its workers when they are needed, and remembers what they found. close: may be called again."""

    def __init__(self, trial_s: float = TRIAL_S, wait_s: float = WAIT_S) -> None:
        self._trial_s, self._wait_s = trial_s, wait_s
        self._threads = ThreadPoolExecutor(NUM_WORKERS, thread_name_prefix="grammars")
        self._idle: list[_Worker] = []
        self._found: OrderedDict[bytes, _Found] = OrderedDict()

    async def fault(self, grammar: Grammar) -> str:
        """What keeps the grammar from being enforced; "" if nothing does. Unavailable while too many others
        wait."""
        key = hashlib.sha256(f"{grammar.kind} {grammar.definition}".encode()).digest()
        known = self._found.get(key)
        if known is None or known.until <= time.monotonic():
            fault = await self._tried(grammar)
            known = _Found(fault, time.monotonic() + SUSPECTED_S if fault == TOO_COSTLY else math.inf)
            self._found[key] = known
            if len(self._found) > MAX_REMEMBERED:
                self._found.popitem(last=False)
        self._found.move_to_end(key)
        return known.fault

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        while self._idle:
            self._idle.pop().end()

    async def _tried(self, grammar: Grammar) -> str:
        trial = self._threads.submit(self._try, grammar)
        answer = asyncio.wrap_future(trial)
        try:
            await asyncio.wait([answer], timeout=self._wait_s)
        except asyncio.CancelledError:
            trial.cancel()
            raise
        if not answer.done() and trial.cancel():
            raise Unavailable("Too many grammars are being compiled; come again.")
        return await answer

    def _try(self, grammar: Grammar) -> str:
        question = [grammar.kind, grammar.definition]
        for _ in range(2):  # whoever ended a worker need not have meant this grammar
            worker = self._worker()
            try:
                found = worker.ask(question, self._trial_s)
            except TimeoutError:
                worker.end()
                break
            except OSError:
                worker.end()
            else:
                self._idle.append(worker)
                return found
        return TOO_COSTLY

    def _worker(self) -> "_Worker":
        with suppress(IndexError):  # the other thread may take the last one
            worker = self._idle.pop()
            if worker.alive:
                return worker
            worker.end()
        try:
            return _Worker()
        except OSError as error:  # TimeoutError is one
            logger.exception("a process for grammars can't be started")
            raise Unavailable("Grammars can't be compiled now.", code="server_unavailable") from error


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
