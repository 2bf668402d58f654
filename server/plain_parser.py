"""httptools' parser of requests, for a server that speaks nothing but HTTP/1.1.

A client may offer another protocol with any request; Java's does with each (`Upgrade: h2c`). Who does not
take it up goes on as if nothing had been offered (RFC 9110, 7.8). httptools stops behind such a request's
head instead, and its body is lost: so the head is read once more, without the offer.
"""

from typing import Any, Protocol

import httptools


class Head(Protocol):
    """What the parser's callbacks have been given of the request that has just begun."""

    url: bytes
    headers: list[tuple[bytes, bytes]]


class PlainParser(httptools.HttpRequestParser):
    """Protocol: while `is_offered`, the callbacks for a head's and a message's end have nothing to do; all of
    them will be called again."""

    def __init__(self, head: Head) -> None:
        super().__init__(head)
        self._head = head

    @property
    def is_offered(self) -> bool:
        """Whether the request offers another protocol. CONNECT wants one, and is no request that is known
        here."""
        return super().should_upgrade() and self.get_method() != b"CONNECT"

    def should_upgrade(self) -> bool:
        return False

    def feed_data(self, data: Any) -> None:
        """data: bytes."""
        while True:
            try:
                return super().feed_data(data)
            except httptools.HttpParserUpgrade as stopped:
                if not self.is_offered:
                    raise httptools.HttpParserError from None
                data = self._without_offer() + data[stopped.args[0] :]

    def _without_offer(self) -> bytes:
        first = b"%s %s HTTP/%s" % (self.get_method(), self._head.url, self.get_http_version().encode())
        fields = [b"%s: %s" % field for field in self._head.headers if field[0] != b"upgrade"]
        return b"\r\n".join([first, *fields, b"", b""])
