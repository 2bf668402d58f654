"""Child processes that do the same, for threads that ask them: each asks one, and none waits for another."""

import logging
import threading
from typing import Any

from server.child import Answer, Child, ChildEnded, IsCancelled, NoChild

logger = logging.getLogger("intarsia")


class ChildPool:
    """Thread-safe. There are as many processes as ever were asked at the same time, but `num_ready` at least,
    which begin to start at once. One that ends is replaced."""

    def __init__(self, module: str, max_bytes: int, num_ready: int = 0) -> None:
        """Arguments as for `Child`."""
        self._module, self._max_bytes, self._num_ready = module, max_bytes, num_ready
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._num_busy = 0
        self._is_closed = False
        self._fill()

    def ask(
        self, head: Any, body: bytes, limit_s: float, is_cancelled: IsCancelled = lambda: False
    ) -> Answer:
        """TimeoutError if it takes longer than `limit_s` or is cancelled, ChildEnded if a process ended at it
        that was asked nothing before, NoChild if there is none to ask. In all three cases another takes its
        place."""
        child = self._taken()
        try:
            try:
                answer = child.ask(head, body, limit_s, is_cancelled)
            except ChildEnded as ended:
                if not (ended.by_others or child.has_answered):
                    raise
                child = Child(self._module, self._max_bytes)
                answer = child.ask(head, body, limit_s, is_cancelled)
        except BaseException:
            child.end()
            self._let_go(None)
            self._fill()
            raise
        self._let_go(child)
        return answer

    def close(self) -> None:
        """End the processes: those that do nothing at once, the others with their answer. What is asked later
        is still answered. May be called again."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for child in idle:
            child.end()

    def _taken(self) -> Child:
        with self._lock:
            child = self._idle.pop() if self._idle else None
            self._num_busy += 1
        if child is not None:
            if not child.has_ended:
                return child
            child.end()
        try:
            return Child(self._module, self._max_bytes)
        except NoChild:
            self._let_go(None)
            raise

    def _let_go(self, child: Child | None) -> None:
        """None: it is no more."""
        with self._lock:
            self._num_busy -= 1
            if child is not None and not self._is_closed:
                self._idle.append(child)
                return
        if child is not None:
            child.end()

    def _fill(self) -> None:
        """Whoever asks next need not wait for a process to start."""
        with self._lock:
            if self._is_closed:
                return
            num_missing = self._num_ready - self._num_busy - len(self._idle)
            try:
                self._idle.extend(Child(self._module, self._max_bytes) for _ in range(num_missing))
            except NoChild:
                logger.exception("a process is missing")  # and is tried for again when it is needed
