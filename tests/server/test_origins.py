"""Pages of other origins: nothing for them by default; where they are allowed, every answer and every refusal
can be read by them, and what a browser asks beforehand needs no key."""

from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from engine.client import RequestError
from server.settings import Settings
from tests.server.fakes import Bench, chat
from tests.server.live import serving
from tests.server.test_auth import ask
from tests.server.test_stream_live import connect, read_all

PAGE = "https://chat.example"
KEY = {"authorization": "Bearer secret"}
PREFLIGHT = {
    "origin": PAGE,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,x-stainless-lang",
}
CHAT = "/v1/chat/completions"


def bench(script: Any = "Hello", origins: tuple[str, ...] = (PAGE,), **settings: Any) -> Bench:
    return Bench(script, api_key=("secret",), allowed_origins=origins, **settings)


def cors(response: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name.startswith("access-control-")}


@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/nowhere"])
def test_a_preflight_carries_no_key(path: str) -> None:
    response = ask(bench(), "OPTIONS", path, headers=PREFLIGHT)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == PAGE
    assert "POST" in response.headers["access-control-allow-methods"]
    assert response.headers["access-control-allow-headers"] == PREFLIGHT["access-control-request-headers"]
    assert "origin" in response.headers["vary"].lower()


def test_a_page_of_a_public_site_may_ask_a_server_on_the_users_own_machine() -> None:
    response = ask(
        bench(), "OPTIONS", CHAT, headers=PREFLIGHT | {"access-control-request-private-network": "true"}
    )
    assert response.status_code == 200
    assert response.headers["access-control-allow-private-network"] == "true"


@pytest.mark.parametrize(
    "wrong", [{"origin": "https://other.example"}, {"access-control-request-method": "DELETE"}]
)
def test_another_preflight_is_refused_in_openais_form(wrong: dict[str, str]) -> None:
    response = ask(bench(), "OPTIONS", CHAT, headers=PREFLIGHT | wrong)
    assert response.status_code == 400
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}


def test_an_options_request_that_is_no_preflight_wants_a_key() -> None:
    assert ask(bench(), "OPTIONS", CHAT, headers={"origin": PAGE}).status_code == 401


def failing(_: object) -> list[Exception]:
    return [RequestError("broken", "internal")]


@pytest.mark.parametrize(
    ("status", "made", "more"),
    [
        (200, bench(), {"json": chat(), "headers": KEY}),
        (200, bench(), {"json": chat(stream=True), "headers": KEY}),
        (400, bench(), {"json": chat(n=0), "headers": KEY}),
        (400, bench(), {"json": chat(n=0, stream=True), "headers": KEY}),
        (401, bench(), {"json": chat()}),
        (404, bench(), {"json": chat() | {"model": "other"}, "headers": KEY}),
        (413, bench(max_body_bytes=10), {"json": chat(), "headers": KEY}),
        (415, bench(), {"content": b"x", "headers": KEY}),
        (500, bench(failing), {"json": chat(), "headers": KEY}),
        (500, bench(failing), {"json": chat(stream=True), "headers": KEY}),
    ],
)
def test_every_answer_and_refusal_can_be_read(status: int, made: Bench, more: dict[str, Any]) -> None:
    headers = {"origin": PAGE, **more.pop("headers", {})}
    response = ask(made, "POST", CHAT, headers=headers, **more)
    assert response.status_code == status
    assert response.headers["access-control-allow-origin"] == PAGE
    assert "x-request-id" in response.headers["access-control-expose-headers"]
    assert "retry-after" in response.headers["access-control-expose-headers"]


def test_a_failure_that_nobody_foresaw_can_be_read_too() -> None:
    def script(_: object) -> list[Exception]:
        raise ZeroDivisionError

    with serving(bench(script)) as port:
        url = f"http://127.0.0.1:{port}{CHAT}"
        response = httpx.post(url, json=chat(), headers={"origin": PAGE, **KEY})
    assert response.status_code == 500
    assert response.headers["access-control-allow-origin"] == PAGE


@pytest.mark.parametrize(
    ("origins", "origin", "allowed"),
    [((), PAGE, None), ((PAGE,), "https://other.example", None), ((PAGE,), PAGE, PAGE), (("*",), PAGE, "*")],
)
def test_only_origins_that_were_named(origins: tuple[str, ...], origin: str, allowed: str | None) -> None:
    response = ask(bench(origins=origins), "GET", "/health", headers={"origin": origin})
    assert response.headers.get("access-control-allow-origin") == allowed


def test_by_default_there_is_nothing_of_it() -> None:
    made = bench(origins=())
    assert not cors(ask(made, "GET", "/health", headers={"origin": PAGE}))
    refused = ask(made, "OPTIONS", CHAT, headers=PREFLIGHT)
    assert refused.status_code == 401
    assert not cors(refused)


@pytest.mark.parametrize(
    ("origins", "origin", "allowed"),
    [((PAGE,), PAGE, PAGE), (("*",), PAGE, "*"), ((PAGE,), "https://x", None)],
)
def test_a_head_that_is_refused_before_there_is_a_request(
    origins: tuple[str, ...], origin: str, allowed: str | None
) -> None:
    head = f"GET / HTTP/1.1\r\nhost: x\r\norigin: {origin}\r\naccept: */*\r\n".encode()
    for rest in (b"x: " + b"x" * 70_000 + b"\r\n\r\n", b"broken\r\n\r\n"):
        with serving(bench(origins=origins)) as port, connect(port, head + rest) as connection:
            answer = read_all(connection).lower()
        assert answer.split()[1] in (b"431", b"400")
        told = [line for line in answer.split(b"\r\n") if line.startswith(b"access-control-allow-origin")]
        assert told == ([] if allowed is None else [f"access-control-allow-origin: {allowed}".encode()])


@pytest.mark.parametrize(
    "origin",
    [
        "https://chat.example",
        "http://localhost:3000",
        "http://[::1]:8080",
        "*",
        "null",
        "app://obsidian.md",
        "file://",
    ],
)
def test_origins_as_browsers_write_them(origin: str) -> None:
    assert Settings.model_validate({"allowed_origins": [origin]}).allowed_origins == (origin,)


@pytest.mark.parametrize(
    "origin",
    [
        "chat.example",
        "https://chat.example:443",
        "http://[::1]:80",
        "https://chat.example/",
        "https://Chat.example",
        "https://*.example",
        "https://",
        "https://ü.de",
    ],
)
def test_what_no_browser_writes_is_refused(origin: str) -> None:
    with pytest.raises(ValidationError, match="origin"):
        Settings.model_validate({"allowed_origins": [origin]})
