"""Media from the web, for hosts that the operator allowed: each hop checked, addresses pinned, bytes and time
capped.

A name is resolved once; every address that it resolves to must be public, and the connection is made to one
of those addresses, not to the name again. Nothing is decompressed, no proxy or environment setting is looked
at.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import httptools

from models.processing.base import MediaError
from server.media.address import is_public
from server.media.url import Url, follow, parse_url

Resolver = Callable[[str, int], Awaitable[list[str]]]
"""(host, port) -> addresses as text. Raises OSError where there are none."""

_CHUNK_BYTES = 1 << 16
_MAX_HEADER_BYTES = 1 << 16
_REDIRECTS = (301, 302, 303, 307, 308)
_NO_ANSWER = (httptools.HttpParserError, httptools.HttpParserUpgrade)


async def resolve_host(host: str, port: int) -> list[str]:
    """Addresses of a host by the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(frozen=True)
class FetchRules:
    """allowed_hosts: matched exactly; none means that nothing is fetched. timeout_s: for all hops
    together."""

    allowed_hosts: Collection[str] = ()
    allowed_ports: Collection[int] = (80, 443)
    max_redirects: int = 3
    timeout_s: float = 10.0
    max_downloads: int = 16
    resolver: Resolver = resolve_host
    is_allowed_address: Callable[[str], bool] = field(default=is_public)


class Fetcher:
    """Downloads within the rules. One for the process."""

    def __init__(self, rules: FetchRules) -> None:
        self._rules = rules
        self._hosts = frozenset(host.lower() for host in rules.allowed_hosts)
        self._slots = asyncio.Semaphore(rules.max_downloads)
        self._tls = ssl.create_default_context()

    async def fetch(self, text: str, max_bytes: int, charge: Callable[[int], None]) -> bytes:
        """The body behind a URL. charge(num_bytes) is called as it arrives, and may refuse. MediaError:
        `invalid_image_url` for a forbidden one, else `failed_to_download_image`."""
        if not self._hosts:
            message = "Remote media URLs are disabled on this server; send the media as a data URL."
            raise MediaError(message, "invalid_image_url")
        url = parse_url(text)
        self._check(url)
        try:
            async with asyncio.timeout(self._rules.timeout_s), self._slots:
                return await self._follow(url, max_bytes, charge)
        except TimeoutError:
            raise _failed("the download took too long") from None
        except (OSError, EOFError, ValueError, *_NO_ANSWER) as error:
            if isinstance(error, MediaError):
                raise
            raise _failed("the host could not be reached or broke off") from None

    async def _follow(self, url: Url, max_bytes: int, charge: Callable[[int], None]) -> bytes:
        for _ in range(self._rules.max_redirects + 1):
            response = await self._get(url, max_bytes, charge)
            if response.status == 200:
                return bytes(response.body)
            if response.status not in _REDIRECTS:
                raise _failed(f"the host answered with status {response.status}")
            if response.location is None:
                raise _failed("the host redirects to nowhere")
            url = follow(url, response.location)
            self._check(url)
        raise _failed("there are too many redirects")

    def _check(self, url: Url) -> None:
        if url.host not in self._hosts or url.port not in self._rules.allowed_ports:
            raise MediaError("Media from this URL's host is not allowed on this server.", "invalid_image_url")

    async def _address(self, url: Url) -> str:
        addresses = await self._rules.resolver(url.host, url.port)
        if not addresses or not all(map(self._rules.is_allowed_address, addresses)):
            raise MediaError("The media URL's host is not at a public address.", "invalid_image_url")
        return addresses[0]

    async def _get(self, url: Url, max_bytes: int, charge: Callable[[int], None]) -> "_Response":
        tls = self._tls if url.scheme == "https" else None
        reader, writer = await asyncio.open_connection(
            await self._address(url), url.port, ssl=tls, server_hostname=url.host if tls else None
        )
        try:
            writer.write(_request(url))
            response = _Response(max_bytes)
            while not response.finished:
                data = await reader.read(_CHUNK_BYTES)
                if not data:
                    response.end_of_stream()
                    break
                before = len(response.body)
                response.feed(data)
                charge(len(response.body) - before)
            return response
        finally:
            writer.transport.abort()


def _request(url: Url) -> bytes:
    headers = {
        "Host": url.authority,
        "User-Agent": "intarsia",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Connection": "close",
    }
    lines = [f"GET {url.target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("ascii")


class _Refusal(NamedTuple):
    reason: str


class _Response:
    """What comes back, fed to httptools' parser, whose callbacks these are."""

    def __init__(self, max_bytes: int) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._max_bytes = max_bytes
        self._header_bytes = 0
        self._headers_done = False
        self._length_known = False
        self._refusal: _Refusal | None = None
        self.body = bytearray()
        self.location: str | None = None
        self.finished = False

    @property
    def status(self) -> int:
        return self._parser.get_status_code()

    def feed(self, data: bytes) -> None:
        if not self._headers_done:
            self._header_bytes += len(data)
            if self._header_bytes > _MAX_HEADER_BYTES + _CHUNK_BYTES:
                raise _failed("the host's header is too long")
        self._parser.feed_data(data)
        if self._refusal:
            if self._refusal.reason == "size":
                message = f"The file behind the media URL is larger than {self._max_bytes} bytes."
                raise MediaError(message, "image_file_too_large")
            raise _failed("the host sent it compressed")

    def end_of_stream(self) -> None:
        """A body of unknown length ends with the connection; any other is incomplete."""
        if not self._headers_done or self._length_known:
            raise EOFError
        self.finished = True

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"location":
            self.location = value.decode("latin-1")
        elif name in (b"content-length", b"transfer-encoding"):
            self._length_known = True
            if name == b"content-length" and value.isdigit() and int(value) > self._max_bytes:
                self._refusal = _Refusal("size")
        elif name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            self._refusal = _Refusal("encoding")

    def on_headers_complete(self) -> None:
        self._headers_done = True
        if self.status in _REDIRECTS:
            self.finished = True

    def on_body(self, data: bytes) -> None:
        if len(self.body) + len(data) > self._max_bytes:
            self._refusal = _Refusal("size")
        else:
            self.body += data

    def on_message_complete(self) -> None:
        self.finished = True


def _failed(reason: str) -> MediaError:
    return MediaError(f"The media URL could not be downloaded: {reason}.", "failed_to_download_image")
