"""A few threads for work that would hold up the event loop, each piece with a wall-time limit.

A thread can't be stopped from outside: a piece that is given up on goes on until its next look at
`is_cancelled`, or its end; what it occupies counts as occupied until then (`Job.on_finish`). A thread that
overruns its limit is replaced, up to a number of them, and nobody waits for a thread for ever. Tenants take
turns. Threads that are still at something do not keep the process from ending.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, TypeVar

from engine.client import EngineDead
from server.errors import Unavailable
from server.turns import Turns

Result = TypeVar("Result")
Work = Callable[[Callable[[], bool]], Result]
"""work(is_cancelled)"""

MAX_REPLACED = 8
"""Threads that may be at work beyond their limit, in place of which others were started."""
LOOK_S = 1.0


class Job(Generic[Result]):
    """One piece of work, queued or running."""

    def __init__(self, workers: "Workers", work: Work[Result]) -> None:
        self._workers = workers
        self._work: Work[Result] | None = work
        self._loop = asyncio.get_running_loop()
        self._started = asyncio.Event()
        self._cancelled = threading.Event()
        self._future: Future[Result] = Future()

    def run(self) -> None:
        """In a thread."""
        if not self._future.set_running_or_notify_cancel():
            return
        assert self._work is not None
        self._from_thread(self._started.set)
        try:
            result = self._work(self._cancelled.is_set)
        except BaseException as error:
            self._future.set_exception(error)
        else:
            self._future.set_result(result)

    async def result(self) -> Result:
        """Unavailable if no thread takes it up within the workers' `wait_s`, TimeoutError if it then takes
        longer than their `limit_s`. Giving up cancels it."""
        outcome = asyncio.wrap_future(self._future)
        try:
            await self._taken_up()
            async with asyncio.timeout(self._workers.limit_s):
                return await outcome
        finally:
            self._cancelled.set()
            if self._future.cancel():
                self._work = None  # the queue would hold what belongs to it until a thread comes by
            outcome.cancel()

    async def _taken_up(self) -> None:
        try:
            async with asyncio.timeout(self._workers.wait_s):
                while not self._started.is_set():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._started.wait(), min(LOOK_S, self._workers.limit_s))
                    self._workers.replace_overrun()
        except TimeoutError:
            raise Unavailable("Too many pictures and sounds are being read; try again shortly.") from None

    def on_finish(self, callback: Callable[[], None]) -> None:
        """Call back on the event loop when no thread works on it any more (or never will)."""
        self._future.add_done_callback(lambda _: self._from_thread(callback))

    def _from_thread(self, callback: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop may be closed by then
            self._loop.call_soon_threadsafe(callback)


class _Queue:
    """Between the event loop and the threads."""

    def __init__(self) -> None:
        self._jobs: Turns[Job[Any]] = Turns()
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, tenant: str, job: Job[Any]) -> None:
        with self._changed:
            self._jobs.append(tenant, job)
            self._changed.notify()

    def get(self) -> Job[Any] | None:
        """Waits for one. None when it is closed and nothing is left."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._is_closed)
            return self._jobs.pop() if self._jobs else None

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class Workers:
    """The threads. `close` once nothing more is to be done.

    limit_s: for one piece of work, from when a thread takes it up. wait_s: until then."""

    def __init__(self, num_workers: int, limit_s: float, wait_s: float) -> None:
        self.limit_s = limit_s
        self.wait_s = wait_s
        self._num_workers = num_workers
        self._queue = _Queue()
        self._threads: list[_Thread] = []
        self._replaced: list[_Thread] = []
        self._closed = False

    def start(self, work: Work[Result], tenant: str = "") -> Job[Result]:
        """work(is_cancelled) runs in a thread as soon as one is free and it is the tenant's turn. EngineDead
        once they are closed, which they are with the engine they work for."""
        if self._closed:
            raise EngineDead("the engine is gone")
        job = Job(self, work)
        self._queue.put(tenant, job)
        if len(self._threads) < self._num_workers:
            self._threads.append(_Thread(self._queue))
        return job

    def replace_overrun(self) -> None:
        """Start a thread in place of each one that has been at its work for too long."""
        self._replaced = [thread for thread in self._replaced if thread.is_alive()]
        for index, thread in enumerate(self._threads):
            if thread.busy_s > self.limit_s and len(self._replaced) < MAX_REPLACED:
                thread.leaves = True
                self._replaced.append(thread)
                self._threads[index] = _Thread(self._queue)

    def close(self) -> None:
        """What is queued is still done, unless it was given up on: requests may be waiting for it."""
        self._closed = True
        self._queue.close()


class _Thread(threading.Thread):
    """Takes jobs until no more come, or `leaves` is set while it is at one."""

    def __init__(self, queue: _Queue) -> None:
        super().__init__(name="media", daemon=True)
        self.leaves = False
        self._queue = queue
        self._busy_since: float | None = None
        self.start()

    @property
    def busy_s(self) -> float:
        """Seconds that it has been at its present piece of work."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    def run(self) -> None:
        while not self.leaves and (job := self._queue.get()) is not None:
            self._busy_since = time.monotonic()
            job.run()
            self._busy_since = None
            del job  # and its result, while there is nothing to do
