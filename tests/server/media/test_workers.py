"""Work beside the event loop has an end for whoever waits for it."""

import asyncio
import threading

import pytest

from engine.client import EngineDead
from server.media.workers import Workers


def test_what_is_queued_when_the_threads_are_closed_is_done() -> None:
    async def run() -> list[str]:
        workers, closed = Workers(1), threading.Event()
        jobs = [workers.start(lambda _: str(closed.wait(10))), workers.start(lambda _: "queued")]
        results = asyncio.gather(*(job.result(20) for job in jobs))
        workers.close()
        closed.set()
        async with asyncio.timeout(10):
            return await results

    assert asyncio.run(run()) == ["True", "queued"]


def test_what_comes_after_the_threads_are_closed_finds_the_engine_gone() -> None:
    async def run() -> None:
        workers = Workers(1)
        workers.close()
        with pytest.raises(EngineDead):
            workers.start(lambda _: None)

    asyncio.run(run())
