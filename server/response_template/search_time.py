"""How long patterns may search within the answers to one request. They are the checkpoint author's, the text
is whatever a model writes, and all of it runs on the event loop."""

import time
from collections.abc import Callable
from typing import TypeVar

REQUEST_S = 0.25
"""Of this thread's CPU, for all searches of a request together, however many choices it has."""
_FREE_S = 1e-4
"""What a search may cost without counting: else a long answer would use up its time on quick ones."""

_Result = TypeVar("_Result")


class SearchTime:
    """clock: seconds, of which only differences count."""

    def __init__(self, seconds: float = REQUEST_S, clock: Callable[[], float] = time.thread_time) -> None:
        self._left = seconds
        self._clock = clock

    def spend(self, search: Callable[[float], _Result]) -> _Result:
        """What `search` returns, given how many seconds it may take. TimeoutError where none are left, or
        where it raises one."""
        if self._left <= 0:
            raise TimeoutError
        begun = self._clock()
        try:
            return search(self._left)
        finally:
            self._left -= max(0.0, self._clock() - begun - _FREE_S)
