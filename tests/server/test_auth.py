"""Keys: without a good one every route but the public ones answers 401, whatever its spelling."""

import asyncio

import httpx
import pytest

from server.app import create_app
from server.auth import Keys, namespace
from tests.server.fakes import Bench, chat

ROUTES = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/bytes"),
    ("GET", "/metrics"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
    ("POST", "/chat/completions"),
    ("POST", "/invocations"),
    ("GET", "//v1/models"),
    ("GET", "/V1/models"),
    ("GET", "/v1/models/"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("OPTIONS", "/v1/models"),
    ("DELETE", "/v1/models"),
    ("GET", "/health/../v1/models"),
    ("GET", "/web/../metrics"),
    ("GET", "/health/"),
    ("GET", "/%2e%2e/metrics"),
]


def ask(bench: Bench, method: str, path: str, **more: object) -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(bench.state))
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
            return await http.request(
                method, httpx.URL("http://server").copy_with(raw_path=path.encode()), **more
            )  # type: ignore[arg-type]

    return asyncio.run(run())


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearersecret"},
        {"authorization": "Bearer\tsecret"},
        {"authorization": "Bearer secret secret"},
        {"authorization": "secret"},
        {"authorization": "Basic secret"},
        {"authorization": "Bearer "},
        {"x-api-key": "secret"},
        {"authorization": "Bearer SECRET"},
        {"authorization": "Bearer"},
    ],
    ids=str,
)
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_wants_a_key(method: str, path: str, headers: dict[str, str]) -> None:
    bench = Bench(api_key=("alice:secret", "other"))
    response = ask(bench, method, path, headers=headers, params={"api_key": "secret"})
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "invalid_api_key"
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.headers["x-request-id"]


@pytest.mark.parametrize("value", ["Bearer secret", "bearer secret", "BEARER  secret"])
def test_the_scheme_may_be_written_in_any_case(value: str) -> None:
    response = ask(Bench(api_key=("secret",)), "GET", "/v1/models", headers={"authorization": value})
    assert response.status_code == 200


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_with_a_key_unknown_routes_are_404_in_openais_form(method: str, path: str) -> None:
    response = ask(
        Bench(api_key=("secret",)), method, path, headers={"authorization": "Bearer secret"}, json=chat()
    )
    if response.status_code not in (200, 400):
        assert response.status_code in (404, 405)
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_public_routes(path: str) -> None:
    assert ask(Bench(api_key=("secret",)), "GET", path).status_code == 200


def test_readiness_follows_the_engine() -> None:
    bench = Bench()
    assert ask(bench, "GET", "/ready").status_code == 200
    bench.engine.stalled_s = 1000
    assert ask(bench, "GET", "/ready").status_code == 503
    assert ask(bench, "GET", "/health").status_code == 200
    bench.engine.stalled_s, bench.state.draining = 0, True
    assert ask(bench, "GET", "/ready").status_code == 503


@pytest.mark.parametrize("given", ["a\nb", "0x7f00aabbccdd;drop", "x" * 10_000, ""])
def test_a_hostile_request_id_is_replaced(given: str) -> None:
    async def run() -> str:
        sent: list[dict] = []
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/health",
            "raw_path": b"/health",
            "query_string": b"",
            "root_path": "",
            "headers": [(b"x-request-id", given.encode())],
            "http_version": "1.1",
            "scheme": "http",
            "server": ("s", 1),
        }

        async def receive() -> dict:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict) -> None:
            sent.append(message)

        await create_app(Bench().state)(scope, receive, send)  # type: ignore[arg-type]
        return dict(sent[0]["headers"])[b"x-request-id"].decode()

    assert asyncio.run(run()).startswith("req-")
    assert (
        ask(Bench(), "GET", "/health", headers={"x-request-id": "mine-1"}).headers["x-request-id"] == "mine-1"
    )


def test_keys_name_tenants() -> None:
    keys = Keys((("a", "k1"), ("b", "k2")))
    assert keys.tenant([b"Bearer k1"]) == "a"
    assert keys.tenant([b"Bearer k2"]) == "b"
    assert keys.tenant([b"Bearer k1", b"Bearer k1"]) is None
    assert keys.tenant([]) is None


@pytest.mark.parametrize("header", [None, b"", b"Bearer", b"Bearer ", b"Basic ", b" "])
def test_no_key_is_no_key_whatever_the_settings_let_through(header: bytes | None) -> None:
    keys = Keys((("a", ""), ("b", "k2")))
    assert keys.tenant([] if header is None else [header]) is None


def test_no_salt_reaches_another_tenant() -> None:
    tenants = [("a", None), ("b", None), ("a", "b"), ("ab", None), ("a", "")]
    assert len({namespace(tenant, salt) for tenant, salt in tenants}) == len(tenants)
