"""Single flight: shared while it lasts, never remembered, cancelled only when nobody waits."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.media.decoded import DecodedStore
from server.media.flights import Flights


def test_failures_reach_all_and_are_forgotten() -> None:
    async def scenario() -> None:
        flights: Flights[int] = Flights()
        num_started = 0

        async def fail() -> int:
            nonlocal num_started
            num_started += 1
            await asyncio.sleep(0)
            raise ValueError("no")

        outcomes = await asyncio.gather(*(flights.join("a", fail) for _ in range(3)), return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["no"] * 3
        assert num_started == 1
        with pytest.raises(ValueError, match="no"):
            await flights.join("a", fail)
        assert num_started == 2
        assert len(flights) == 0

    asyncio.run(scenario())


def test_nobody_waits_any_more() -> None:
    async def scenario() -> None:
        flights: Flights[int] = Flights()
        ended = asyncio.Event()

        async def forever() -> int:
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()
            return 1

        async def quick() -> int:
            return 2

        waiters = [asyncio.create_task(flights.join("a", forever)) for _ in range(2)]
        await asyncio.sleep(0)
        for waiter in waiters:
            assert not ended.is_set()
            waiter.cancel()
            with suppress(asyncio.CancelledError):
                await waiter
        assert await flights.join("a", quick) == 2, "a cancelled flight must not be joined"
        await asyncio.wait_for(ended.wait(), 1)

    asyncio.run(scenario())


def test_room_is_given_to_tenants_in_turn() -> None:
    async def scenario() -> None:
        store, order = DecodedStore(100), list[str]()
        await store.reserve(100, "many")

        async def use(tenant: str) -> None:
            reserved = await store.reserve(100, tenant)
            order.append(tenant)
            store.release(reserved)

        waiting = [asyncio.create_task(use(tenant)) for tenant in ("many", "many", "many", "one")]
        await asyncio.sleep(0)
        store.release(100)
        await asyncio.gather(*waiting)
        assert order == ["many", "one", "many", "many"]

    asyncio.run(scenario())


def test_who_leaves_while_room_is_given_is_no_fault() -> None:
    async def scenario() -> None:
        store = DecodedStore(100)
        await store.reserve(100)
        waiting = asyncio.create_task(store.reserve(1))
        await asyncio.sleep(0)
        waiting.cancel()
        store.release(100)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert store.used_bytes == 0

    asyncio.run(scenario())


Step = Callable[[DecodedStore], Awaitable[None]]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 120), st.sampled_from(["keep", "release", "cancel"])), max_size=12))
def test_decoded_store_never_exceeds_its_budget_nor_hangs(steps: list[tuple[int, str]]) -> None:
    async def scenario() -> None:
        store = DecodedStore(100)

        async def use(name: int, num_bytes: int, end: str) -> None:
            reserved = await store.reserve(num_bytes)
            assert store.used_bytes <= 100
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                store.release(reserved)
                raise
            if end == "keep":
                store.keep(name, "item", reserved)
            else:
                store.release(reserved)

        tasks = [asyncio.create_task(use(name, *step)) for name, step in enumerate(steps)]
        await asyncio.sleep(0)
        for task, (_, end) in zip(tasks, steps, strict=True):
            if end == "cancel":
                task.cancel()
        outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
        assert {type(outcome) for outcome in outcomes} <= {type(None), asyncio.CancelledError}
        for name in range(len(steps)):
            store.drop(name)
        assert store.used_bytes == 0

    asyncio.run(scenario())
