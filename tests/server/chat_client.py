"""Chats sent to a bench in-process, and their answers taken apart."""

import asyncio
import json
from typing import Any

import httpx

from server.app import create_app
from tests.server.fakes import Bench, chat

URL = "/v1/chat/completions"


def client(bench: Bench) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_app(bench.state), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://server")


def post(bench: Bench, body: Any, **more: Any) -> httpx.Response:
    async def run() -> httpx.Response:
        async with client(bench) as http:
            if isinstance(body, bytes | str):
                headers = {"content-type": "application/json", **more.pop("headers", {})}
                return await http.post(URL, content=body, headers=headers, **more)
            return await http.post(URL, json=body, **more)

    return asyncio.run(run())


def refused(bench: Bench, body: Any, status: int = 400) -> dict[str, Any]:
    response = post(bench, body)
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    bench.assert_idle()
    return error


def events(response: httpx.Response) -> list[Any]:
    assert response.status_code == 200, response.text
    assert response.text.endswith("\n\n")
    return [
        part[6:] if part == "data: [DONE]" else json.loads(part[6:])
        for part in response.text.split("\n\n")
        if part.startswith("data: ")
    ]


def chunks(bench: Bench, **fields: Any) -> list[dict[str, Any]]:
    *found, done = events(post(bench, chat(stream=True, **fields)))
    assert done == "[DONE]"
    bench.assert_idle()
    return found


def joined(found: list[dict[str, Any]], index: int = 0) -> str:
    return "".join(
        choice["delta"].get("content") or ""
        for chunk in found
        for choice in chunk["choices"]
        if choice["index"] == index
    )
