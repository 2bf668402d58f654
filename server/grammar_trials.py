"""Grammars tried out in processes of their own, so that what a request asks for costs no other one its
answer."""

import asyncio
import hashlib
import logging
import math
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from engine.messages import Grammar
from server.child import ChildEnded, NoChild
from server.child_pool import ChildPool
from server.errors import Unavailable

logger = logging.getLogger("intarsia")

NUM_WORKERS = 2
TRIAL_S = 3.0
"""What is used takes milliseconds."""
WAIT_S = 10.0
"""For a worker, while others' grammars are tried out."""
MAX_BYTES = 4 << 30
"""That a trial may take."""
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
        self._workers = ChildPool("server.grammar_worker", MAX_BYTES)
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
        self._workers.close()

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
        try:
            return self._workers.ask([grammar.kind, grammar.definition], b"", self._trial_s).head
        except (TimeoutError, ChildEnded):
            return TOO_COSTLY
        except NoChild as error:
            logger.error("no grammar can be tried: %s", error)
            raise Unavailable("Grammars can't be compiled now.", code="server_unavailable") from None
