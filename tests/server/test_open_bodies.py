"""Memory for bodies is one budget: what exceeds it is told to come again, and every share comes back."""

import asyncio

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


async def post(padding: str, client: httpx.AsyncClient) -> httpx.Response:
    body = {"model": "bytes", "messages": user("Hi"), "metadata": {"padding": padding}}
    return await client.post("/v1/chat/completions", json=body)


def test_bodies_beyond_the_budget_get_503_while_others_are_served() -> None:
    bench = Bench(max_body_bytes=1000, max_open_body_bytes=1000)

    async def run() -> None:
        transport = httpx.ASGITransport(create_app(bench.state))
        async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
            bench.state.bodies.grow(700)  # held by others
            assert (await post("short", client)).status_code == 200
            refused = await post("x" * 500, client)
            assert refused.status_code == 503
            assert "retry-after" in refused.headers
            assert set(refused.json()["error"]) == {"message", "type", "param", "code"}
            bench.state.bodies.used_bytes -= 700
            assert (await post("x" * 500, client)).status_code == 200

    asyncio.run(run())
    bench.assert_idle()
