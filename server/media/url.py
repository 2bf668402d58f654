"""URLs that media may be fetched from: one strict grammar, whose parts are both what is checked and what is
used.

Anything that two parsers could read differently (backslashes, user names, odd numbers for hosts, characters
beyond ASCII) is no URL here.
"""

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import urljoin

from models.processing.base import MediaError

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_URL = re.compile(
    rf"(https?)://({_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]{{2,45}}\])(?::([0-9]{{1,5}}))?"
    r"(/[!$%&'()*+,\-./0-9:;=@A-Z_a-z~]*)?(\?[!$%&'()*+,\-./0-9:;=?@A-Z_a-z~]*)?(?:#[!$%&'()*+,\-./0-9:;=?A-Z_a-z~]*)?",
)
_HEAD = re.compile(r"[a-zA-Z]{4,5}://[^/?#]*")
_MAX_LENGTH = 8192


class Url(NamedTuple):
    """host: lower case, without brackets. target: path and query as sent."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """For the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


_DEFAULT_PORTS = {"http": 80, "https": 443}


def parse_url(text: str) -> Url:
    """MediaError `invalid_image_url` for anything but a plain http or https URL."""
    # Scheme and host are case-insensitive, the rest is not.
    lowered = _HEAD.sub(lambda head: head[0].lower(), text, count=1) if len(text) <= _MAX_LENGTH else ""
    match = _URL.fullmatch(lowered)
    if match is None:
        raise MediaError("The media URL is not a plain http or https URL.", "invalid_image_url")
    scheme, host, port, path, query = match.groups()
    number = int(port) if port else _DEFAULT_PORTS[scheme]
    if not 0 < number < 65536 or not _is_host(host):
        raise MediaError("The media URL's host or port is not valid.", "invalid_image_url")
    return Url(scheme, host.strip("[]"), number, (path or "/") + (query or ""))


def follow(url: Url, location: str) -> Url:
    """Where a redirect leads. Never from https to http, never to another scheme."""
    target = parse_url(urljoin(f"{url.scheme}://{url.authority}{url.target}", location))
    if url.scheme == "https" and target.scheme == "http":
        raise MediaError("The media URL redirects from https to http.", "invalid_image_url")
    return target


def _is_host(host: str) -> bool:
    """A name or an address in its usual form; not the other spellings that resolvers take for addresses
    (`127.1`, `0x7f000001`)."""
    last_label = host.rpartition(".")[2]
    if not host.startswith("[") and not re.fullmatch(r"[0-9]+|0x[0-9a-f]*", last_label):
        return len(host) <= 253
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
