"""A hostile web: every hop is checked, connections go to checked addresses only, bytes and time are
capped."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence

import pytest

from models.processing.base import MediaError
from server.media.address import is_public
from server.media.fetch import Fetcher, FetchRules
from server.media.url import Url, follow, parse_url

Handler = Callable[[str, asyncio.StreamWriter], Awaitable[None]]
INTERNALS = re.compile(r"0x[0-9a-f]{6,}|Traceback|Error\b|\d+\.\d+\.\d+\.\d+|Errno")


def answer(status: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode() + body


def fetch(
    handler: Handler,
    url: str = "http://pictures.example/a.png",
    addresses: Sequence[str] = ("127.0.0.1",),
    allowed: Sequence[str] = ("pictures.example", "other.example"),
    max_bytes: int = 100_000,
    timeout_s: float = 5.0,
    charge: Callable[[int], None] = lambda _: None,
) -> tuple[bytes | MediaError, list[str]]:
    """The outcome, and the requests that reached the server; `{port}` in the URL is its port."""
    seen: list[str] = []

    async def run() -> bytes:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append((await reader.readuntil(b"\r\n\r\n")).decode())
            try:
                await handler(seen[-1], writer)
                await writer.drain()
            except ConnectionError:
                return
            finally:
                writer.close()

        async def resolve(host: str, port: int) -> list[str]:
            return list(addresses)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        rules = FetchRules(
            allowed,
            allowed_ports=(port,),
            timeout_s=timeout_s,
            resolver=resolve,
            is_allowed_address=lambda address: address == "127.0.0.1" or is_public(address),
        )
        target = url.replace("pictures.example", f"pictures.example:{port}").replace("{port}", str(port))
        ports.append(port)
        try:
            return await Fetcher(rules).fetch(target, max_bytes, charge)
        finally:
            server.close()

    ports: list[int] = []
    try:
        return asyncio.run(run()), seen
    except MediaError as error:
        refusal = error
    assert not INTERNALS.search(str(refusal))
    return refusal, seen


def code(outcome: bytes | MediaError) -> str:
    assert isinstance(outcome, MediaError)
    return outcome.code


def sends(*chunks: bytes) -> Handler:
    async def handler(request: str, writer: asyncio.StreamWriter) -> None:
        for chunk in chunks:
            writer.write(chunk)

    return handler


BODY = b"picture" * 1000


@pytest.mark.parametrize(
    "response",
    [
        answer("200 OK", f"Content-Length: {len(BODY)}", body=BODY),
        answer("200 OK", "Transfer-Encoding: chunked", body=b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
        answer("200 OK", body=BODY),
        answer("200 OK", "Content-Encoding: identity", body=BODY),
    ],
)
def test_bodies(response: bytes) -> None:
    outcome, seen = fetch(sends(response))
    assert outcome == BODY
    assert seen[0].startswith("GET /a.png HTTP/1.1\r\nHost: pictures.example:")
    assert "Accept-Encoding: identity" in seen[0]
    assert "Cookie" not in seen[0]


def test_what_arrives_is_charged_as_it_arrives() -> None:
    """A body is broken off as soon as its request may hold no more."""
    charged: list[int] = []

    def charge(num_bytes: int) -> None:
        charged.append(num_bytes)
        if sum(charged) > 200_000:
            raise MediaError("too much", "image_file_too_large")

    async def endless(request: str, writer: asyncio.StreamWriter) -> None:
        writer.write(answer("200 OK"))
        while True:
            writer.write(bytes(1000))
            await writer.drain()

    outcome, _ = fetch(endless, max_bytes=1 << 40, charge=charge)
    assert code(outcome) == "image_file_too_large"
    assert 200_000 < sum(charged) < 300_000
    charged.clear()
    outcome, _ = fetch(sends(answer("200 OK", body=BODY)), charge=charge)
    assert outcome == BODY
    assert sum(charged) == len(BODY)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (answer("404 Not Found", "Content-Length: 0"), "failed_to_download_image"),
        (answer("500 Oops", "Content-Length: 0"), "failed_to_download_image"),
        (answer("200 OK", "Content-Length: 10", body=b"short"), "failed_to_download_image"),
        (answer("200 OK", "Transfer-Encoding: chunked", body=b"5\r\nshort\r\n"), "failed_to_download_image"),
        (answer("200 OK", "Content-Encoding: gzip", body=b"\x1f\x8b"), "failed_to_download_image"),
        (answer("200 OK", "Content-Length: 99999999"), "image_file_too_large"),
        (answer("200 OK", "Content-Length: nonsense", body=b"x"), "failed_to_download_image"),
        (answer("302 Found"), "failed_to_download_image"),
        (b"", "failed_to_download_image"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "failed_to_download_image"),
        (
            answer("101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"),
            "failed_to_download_image",
        ),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 300_000, "failed_to_download_image"),
    ],
)
def test_bad_answers(response: bytes, expected: str) -> None:
    outcome, _ = fetch(sends(response))
    assert code(outcome) == expected


def test_endless_body() -> None:
    sent = 0

    async def handler(request: str, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(answer("200 OK", "Transfer-Encoding: chunked"))
        while True:
            writer.write(b"1000\r\n" + bytes(0x1000) + b"\r\n")
            sent += 0x1000
            await writer.drain()

    outcome, _ = fetch(handler)
    assert code(outcome) == "image_file_too_large"
    assert sent < 20_000_000


@pytest.mark.parametrize("first", [b"", answer("200 OK", "Content-Length: 1000")])
def test_slow_or_silent(first: bytes) -> None:
    async def handler(request: str, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        for _ in range(40):
            writer.write(b"x" if first else b"")
            await writer.drain()
            await asyncio.sleep(0.05)

    outcome, _ = fetch(handler, timeout_s=0.3)
    assert code(outcome) == "failed_to_download_image"


def redirects(*locations: str) -> Handler:
    """Hop after hop; then the body."""
    left = list(locations)

    async def handler(request: str, writer: asyncio.StreamWriter) -> None:
        port = re.search(r"Host: [^:\r]+:(\d+)", request)
        if left:
            location = left.pop(0).replace("{port}", port[1] if port else "")
            writer.write(answer("302 Found", f"Location: {location}", "Content-Length: 0"))
        else:
            writer.write(answer("200 OK", f"Content-Length: {len(BODY)}", body=BODY))

    return handler


@pytest.mark.parametrize(
    "locations", [["/b.png"], ["b.png"], ["http://other.example:{port}/c"], ["/1", "/2", "/3"]]
)
def test_redirects(locations: list[str]) -> None:
    outcome, seen = fetch(redirects(*locations))
    assert outcome == BODY
    assert len(seen) == 1 + len(locations)


@pytest.mark.parametrize(
    ("locations", "expected"),
    [
        (["http://127.0.0.1:{port}/"], "invalid_image_url"),
        (["http://169.254.169.254/latest/meta-data"], "invalid_image_url"),
        (["http://[::1]:{port}/"], "invalid_image_url"),
        (["file:///etc/passwd"], "invalid_image_url"),
        (["data:image/png;base64,AAAA"], "invalid_image_url"),
        (["ftp://other.example/"], "invalid_image_url"),
        (["//evil.example:{port}/"], "invalid_image_url"),
        (["http://other.example:22/"], "invalid_image_url"),
        (["http://other.example\\@evil.example/"], "invalid_image_url"),
        (["/1", "/2", "/3", "/4"], "failed_to_download_image"),
    ],
)
def test_bad_redirects(locations: list[str], expected: str) -> None:
    outcome, seen = fetch(redirects(*locations))
    assert code(outcome) == expected
    assert len(seen) <= 4


@pytest.mark.parametrize(
    "addresses",
    [
        ["10.0.0.1"],
        ["127.0.0.1", "10.0.0.1"],
        ["93.184.216.34", "::1"],
        ["::ffff:127.0.0.1"],
        ["fe80::1%eth0"],
        [],
    ],
)
def test_addresses_are_checked_before_any_packet(addresses: list[str]) -> None:
    outcome, seen = fetch(sends(answer("200 OK", body=BODY)), addresses=addresses)
    assert code(outcome) == "invalid_image_url"
    assert not seen


def test_name_is_resolved_once_for_each_hop() -> None:
    """Whatever the name says a moment later, the connection goes to the address that was checked."""
    answers = [["127.0.0.1"], ["10.0.0.1"]]

    async def run() -> bytes:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer("200 OK", body=BODY))
            await writer.drain()
            writer.close()

        async def resolve(host: str, port: int) -> list[str]:
            return answers.pop(0)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        rules = FetchRules(
            ["a.example"], [port], resolver=resolve, is_allowed_address=lambda a: a == "127.0.0.1"
        )
        async with server:
            return await Fetcher(rules).fetch(f"http://a.example:{port}/", 100_000, lambda _: None)

    assert asyncio.run(run()) == BODY
    assert len(answers) == 1


@pytest.mark.parametrize("allowed", [[], ["example"], ["pictures.example.org"], ["ictures.example"]])
def test_hosts_match_exactly(allowed: list[str]) -> None:
    outcome, seen = fetch(sends(answer("200 OK", body=BODY)), allowed=allowed)
    assert code(outcome) == "invalid_image_url"
    assert not seen


@pytest.mark.parametrize(
    "url",
    [
        "http://pictures.example\\@evil.example/",
        "http://user@pictures.example/",
        "http://user:pass@pictures.example/",
        "http://pictures.example./",
        "http://sub.pictures.example/",
        "http://píctures.example/",
        "http://pictures.example%2eevil/",
        "http://pictures.example#@evil.example/",
        "http://pictures.example /",
        "http://pictures.example/\r\nHost: evil",
        "http://pictures.example/\x00",
        "http://pictures.example:0/",
        "http://pictures.example:99999/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://[::1]/",
        "http://[fe80::1%25eth0]/",
        "http:///a.png",
        "http:pictures.example",
        "//pictures.example/",
        "https://",
        "http://" + "a" * 10_000,
    ],
)
def test_odd_urls_are_refused(url: str) -> None:
    async def run() -> bytes:
        async def resolve(host: str, port: int) -> list[str]:
            raise AssertionError("must not be resolved")

        rules = FetchRules(["pictures.example"], resolver=resolve, is_allowed_address=lambda _: True)
        return await Fetcher(rules).fetch(url, 1000, lambda _: None)

    with pytest.raises(MediaError) as caught:
        asyncio.run(run())
    assert caught.value.code == "invalid_image_url"


def test_parsing() -> None:
    assert parse_url("HTTPS://Pictures.Example/A?b=C#frag") == Url("https", "pictures.example", 443, "/A?b=C")
    assert parse_url("http://a.example?x").target == "/?x"
    assert parse_url("http://[2001:DB8::1]:8080/").host == "2001:db8::1"
    with pytest.raises(MediaError):
        follow(parse_url("https://a.example/"), "http://a.example/")
    assert follow(parse_url("http://a.example/x/y"), "../z").target == "/z"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.1.2.3",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.0.8",
        "198.18.0.1",
        "203.0.113.5",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::127.0.0.1",
        "fc00::1",
        "fd12::1",
        "fe80::1",
        "fe80::1%1",
        "ff02::1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::1",
        "2001::1",
        "2001:db8::1",
        "100::1",
        "localhost",
        "2130706433",
        "127.1",
    ],
)
def test_private_addresses(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.216.34", "172.32.0.1", "2606:4700:4700::1111"])
def test_public_addresses(address: str) -> None:
    assert is_public(address)
