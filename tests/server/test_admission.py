"""Waiting for a place: bounded, timed, fair, and without loss when a waiter leaves."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.admission import Admission
from server.errors import Unavailable
from tests.server.chat_client import URL, client
from tests.server.fakes import Bench, chat, image


async def enter(admission: Admission, tenant: str, order: list[str], weight: int = 1) -> None:
    async with admission.place(tenant, weight):
        order.append(tenant)
        await asyncio.sleep(0)


def test_tenants_take_turns() -> None:
    async def run() -> list[str]:
        admission = Admission(capacity=1, max_queue=1000, timeout_s=10)
        order: list[str] = []
        async with admission.place("first", 1):
            many = [asyncio.ensure_future(enter(admission, "many", order)) for _ in range(500)]
            await asyncio.sleep(0)
            one = asyncio.ensure_future(enter(admission, "one", order))
            await asyncio.sleep(0)
        await asyncio.gather(one, *many)
        assert admission.num_inside == 0
        return order

    assert "one" in asyncio.run(run())[:3]


def test_a_full_queue_refuses_at_once_and_a_long_wait_ends() -> None:
    async def run() -> None:
        admission = Admission(capacity=1, max_queue=1, timeout_s=0.05)
        async with admission.place("a", 1):
            waiting = asyncio.ensure_future(enter(admission, "b", []))
            await asyncio.sleep(0)
            with pytest.raises(Unavailable) as refused:
                await enter(admission, "c", [])
            assert 1 <= int(refused.value.headers["retry-after"]) <= 120
            with pytest.raises(Unavailable):
                await waiting
        assert (admission.num_inside, admission.num_waiting) == (0, 0)

    asyncio.run(run())


def test_a_queue_full_of_one_tenant_has_room_for_another() -> None:
    async def run() -> None:
        admission = Admission(capacity=1, max_queue=8, timeout_s=10)
        order: list[str] = []
        async with admission.place("first", 1):
            many = [asyncio.ensure_future(enter(admission, "many", order)) for _ in range(20)]
            await asyncio.sleep(0)
            few = [asyncio.ensure_future(enter(admission, "few", order)) for _ in range(20)]
            await asyncio.sleep(0)
            assert admission.num_waiting == 8 + 4
            admission.check_queue("late")
            with pytest.raises(Unavailable):
                admission.check_queue("few")
        ends = await asyncio.gather(*many, *few, return_exceptions=True)
        assert sum(isinstance(end, Unavailable) for end in ends) == 40 - 12
        assert (order.count("many"), order.count("few")) == (8, 4)

    asyncio.run(run())


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.booleans()), max_size=30))
def test_no_place_is_lost(requests: list[tuple[str, int, bool]]) -> None:
    async def run() -> None:
        admission = Admission(capacity=4, max_queue=1000, timeout_s=10)
        order: list[str] = []
        tasks = [asyncio.ensure_future(enter(admission, tenant, order, w)) for tenant, w, _ in requests]
        await asyncio.sleep(0)
        assert admission.num_inside <= 4
        for task, (_, _, leaves) in zip(tasks, requests, strict=True):
            if leaves:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert len(order) >= sum(not leaves for _, _, leaves in requests)
        assert (admission.num_inside, admission.num_waiting) == (0, 0)

    asyncio.run(run())


def test_a_full_server_answers_503_without_reading_media() -> None:
    async def run() -> None:
        bench = Bench(lambda _: [10.0], max_num_seqs=1, max_queue=0)
        async with client(bench) as http:
            tasks = [asyncio.ensure_future(http.post(URL, json=chat())) for _ in range(3)]
            while bench.engine.num_open < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            response = await http.post(URL, json=chat([image()]))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert response.status_code == 503
        assert "retry-after" in response.headers
        assert bench.media.num_resolved == 0
        bench.assert_idle()

    asyncio.run(run())
