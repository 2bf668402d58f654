"""Work beside the event loop has an end for whoever waits for it."""

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable

import pytest

from engine.client import EngineDead
from server.errors import Unavailable
from server.media import workers as workers_module
from server.media.workers import Workers


def test_what_is_queued_when_the_threads_are_closed_is_done() -> None:
    async def run() -> list[str]:
        workers, closed = Workers(1, 20, 20), threading.Event()
        jobs = [workers.start(lambda _: str(closed.wait(10))), workers.start(lambda _: "queued")]
        results = asyncio.gather(*(job.result() for job in jobs))
        workers.close()
        closed.set()
        async with asyncio.timeout(10):
            return await results

    assert asyncio.run(run()) == ["True", "queued"]


def test_tenants_take_turns() -> None:
    """One with many pictures keeps no other waiting for all of them."""

    async def run() -> None:
        workers, holding, order = Workers(1, 20, 20), Holding(), list[str]()
        held = workers.start(holding, "many")
        await held._started.wait()
        jobs = [workers.start(lambda _, n=n: order.append(f"many {n}"), "many") for n in range(3)]
        jobs += [workers.start(lambda _, name=name: order.append(name), name) for name in ("one", "other")]
        holding.let_go.set()
        await asyncio.gather(*(job.result() for job in [held, *jobs]))
        workers.close()
        assert order == ["many 0", "one", "other", "many 1", "many 2"]

    asyncio.run(run())


def test_what_comes_after_the_threads_are_closed_finds_the_engine_gone() -> None:
    async def run() -> None:
        workers = Workers(1, 1, 1)
        workers.close()
        with pytest.raises(EngineDead):
            workers.start(lambda _: None)

    asyncio.run(run())


class Holding:
    """Work that occupies its thread until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def __call__(self, _: Callable[[], bool]) -> str:
        assert self.let_go.wait(20)
        return "late"


def test_nobody_waits_for_ever_for_threads_that_others_hold() -> None:
    async def run() -> None:
        workers, holding = Workers(1, 20, 0.05), Holding()
        held = asyncio.create_task(workers.start(holding).result())
        with pytest.raises(Unavailable) as caught:
            await workers.start(lambda _: "never").result()
        assert caught.value.headers["retry-after"]
        holding.let_go.set()
        assert await held == "late"
        workers.close()

    asyncio.run(run())


@pytest.mark.parametrize("leaves", [False, True])
def test_a_thread_that_overruns_is_replaced(leaves: bool) -> None:
    """Whether or not anyone still waits for what it is at."""

    async def run() -> None:
        workers, holding = Workers(1, 0.05, 20), Holding()
        held = asyncio.create_task(workers.start(holding).result())
        if leaves:
            await asyncio.sleep(0)
            held.cancel()
        with pytest.raises(asyncio.CancelledError if leaves else TimeoutError):
            await held
        for number in range(3):
            assert await workers.start(lambda _, number=number: number).result() == number
        threads = [*workers._threads, *workers._replaced]
        assert len(threads) == 2
        holding.let_go.set()
        workers.close()
        for thread in threads:
            await asyncio.to_thread(thread.join, 10)
            assert not thread.is_alive()

    asyncio.run(run())


def test_threads_are_replaced_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "MAX_REPLACED", 2)

    async def run() -> None:
        workers, holding = Workers(1, 0.02, 0.2), Holding()
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await workers.start(holding).result()
        for _ in range(2):
            with pytest.raises(Unavailable):
                await workers.start(lambda _: None).result()
        holding.let_go.set()
        assert await workers.start(lambda _: "again").result() == "again"
        workers.close()

    asyncio.run(run())


def test_what_was_given_up_is_not_held_by_the_queue() -> None:
    async def run() -> None:
        workers, holding, load = Workers(1, 20, 0.05), Holding(), Holding()
        held = asyncio.create_task(workers.start(holding).result())
        seen = weakref.ref(load)
        with pytest.raises(Unavailable):
            await workers.start(lambda _, load=load: load).result()
        del load
        gc.collect()
        assert seen() is None
        holding.let_go.set()
        await held
        workers.close()

    asyncio.run(run())


def test_a_thread_at_work_does_not_keep_the_process() -> None:
    program = """
import asyncio, threading
from server.media.workers import Workers
async def run():
    begun = threading.Event()
    Workers(1, 9, 9).start(lambda _: begun.set() or threading.Event().wait())
    await asyncio.to_thread(begun.wait)
asyncio.run(run())
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
