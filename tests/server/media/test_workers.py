"""Work beside the event loop has an end for whoever waits for it."""

import asyncio
import threading

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
