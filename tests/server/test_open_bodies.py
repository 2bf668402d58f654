"""Memory for bodies is one budget: what exceeds it is told to come again, and every share comes back."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from server.app import create_app
from server.errors import Unavailable
from server.open_bodies import HeldBody, OpenBodies
from tests.server.fakes import Bench, user


def test_shares_are_taken_and_come_back() -> None:
    bodies = OpenBodies(100)
    one, other = HeldBody(bodies), HeldBody(bodies)
    one.grow(60)
    with pytest.raises(Unavailable):
        other.grow(41)
    other.grow(40)
    one.release()
    one.release()
    assert bodies.used_bytes == 40
    other.release()
    assert bodies.used_bytes == 0


def test_who_fills_the_budget_leaves_the_others_their_shares() -> None:
    bodies = OpenBodies(120)
    many, few = [HeldBody(bodies, "many") for _ in range(4)], HeldBody(bodies, "few")
    for body in many:
        body.grow(30)
    with pytest.raises(Unavailable):
        many[0].grow(1)
    few.grow(60)  # half of it: two hold bodies now
    for body in (few, many[0]):
        with pytest.raises(Unavailable):
            body.grow(1)
    HeldBody(bodies, "late").grow(40)
    many[0].release()
    many[1].release()
    with pytest.raises(Unavailable):
        many[2].grow(1)
    assert bodies.used_bytes == 60 + 60 + 40


def test_nobody_is_remembered_who_holds_nothing() -> None:
    bodies = OpenBodies(100)
    for tenant in "abc":
        body = HeldBody(bodies, tenant)
        body.grow(10)
        body.release()
        body.release()
    with pytest.raises(Unavailable):
        HeldBody(bodies, "refused").grow(101)
    HeldBody(bodies, "first").grow(100)
    HeldBody(bodies, "second").grow(50)
    with pytest.raises(Unavailable):
        HeldBody(bodies, "third").grow(34)


def test_a_tenant_with_slow_bodies_does_not_shut_out_another() -> None:
    """Of one tenant all that fits is arriving, and does not come to an end."""
    bench = Bench(max_body_bytes=1000, max_open_body_bytes=1000, api_key=("slow:a", "other:b"))

    async def endless(is_held: asyncio.Event) -> AsyncIterator[bytes]:
        yield b"x" * 900
        is_held.set()
        await asyncio.Event().wait()

    async def run() -> None:
        transport = httpx.ASGITransport(create_app(bench.state))
        async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
            client.headers["content-type"] = "application/json"
            is_held = asyncio.Event()
            slow = asyncio.ensure_future(
                client.post(
                    "/v1/chat/completions", content=endless(is_held), headers={"authorization": "Bearer a"}
                )
            )
            await is_held.wait()
            client.headers["authorization"] = "Bearer b"
            assert (await post("x" * 300, client)).status_code == 200
            client.headers["authorization"] = "Bearer a"
            assert (await post("x" * 300, client)).status_code == 503
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)

    asyncio.run(run())
    bench.assert_idle()


async def post(padding: str, client: httpx.AsyncClient) -> httpx.Response:
    body = {"model": "bytes", "messages": user("Hi"), "metadata": {"padding": padding}}
    return await client.post("/v1/chat/completions", json=body)


def test_bodies_beyond_the_budget_get_503_while_others_are_served() -> None:
    bench = Bench(max_body_bytes=1000, max_open_body_bytes=1000)

    async def run() -> None:
        transport = httpx.ASGITransport(create_app(bench.state))
        async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
            others = HeldBody(bench.state.bodies)
            others.grow(700)
            assert (await post("short", client)).status_code == 200
            refused = await post("x" * 500, client)
            assert refused.status_code == 503
            assert "retry-after" in refused.headers
            assert set(refused.json()["error"]) == {"message", "type", "param", "code"}
            others.release()
            assert (await post("x" * 500, client)).status_code == 200

    asyncio.run(run())
    bench.assert_idle()
