"""A few threads for work that would hold up the event loop, each piece with a wall-time limit.

A thread can't be stopped from outside: a piece that is given up on goes on until its next look at
`is_cancelled`, or its end; what it occupies counts as occupied until then (`Job.on_finish`).
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

from engine.client import EngineDead

Result = TypeVar("Result")


class Job(Generic[Result]):
    """One piece of work, queued or running."""

    def __init__(self, executor: ThreadPoolExecutor, work: Callable[[Callable[[], bool]], Result]) -> None:
        self._loop = asyncio.get_running_loop()
        self._started = asyncio.Event()
        self._cancelled = threading.Event()

        def run() -> Result:
            self._from_thread(self._started.set)
            return work(self._cancelled.is_set)

        self._future: Future[Result] = executor.submit(run)

    async def result(self, timeout_s: float) -> Result:
        """TimeoutError if it takes longer, counted from when a thread took it up. Giving up cancels it."""
        outcome = asyncio.wrap_future(self._future)
        try:
            await self._started.wait()
            async with asyncio.timeout(timeout_s):
                return await outcome
        finally:
            self._cancelled.set()
            outcome.cancel()

    def on_finish(self, callback: Callable[[], None]) -> None:
        """Call back on the event loop when no thread works on it any more (or never will)."""
        self._future.add_done_callback(lambda _: self._from_thread(callback))

    def _from_thread(self, callback: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop may be closed by then
            self._loop.call_soon_threadsafe(callback)


class Workers:
    """The threads. `close` once nothing more is to be done."""

    def __init__(self, num_workers: int) -> None:
        self._executor = ThreadPoolExecutor(num_workers, thread_name_prefix="media")

    def start(self, work: Callable[[Callable[[], bool]], Result]) -> Job[Result]:
        """work(is_cancelled) runs in a thread as soon as one is free. EngineDead once they are closed, which
        they are with the engine they work for."""
        try:
            return Job(self._executor, work)
        except RuntimeError as error:
            raise EngineDead("the engine is gone") from error

    def close(self) -> None:
        """What is queued is still done, unless it was given up on: requests may be waiting for it."""
        self._executor.shutdown(wait=False)
