"""From what the client sent to the encoded bytes and their digest. Nothing is decoded here but base64.

| data URL | |
|---|---|
| `data:[type][;parameter]...;base64,DATA`, scheme and `base64` in any case | taken, labels ignored |
| no data after the comma | `empty_image_file` |
| no comma, no `;base64`, percent-encoding | `invalid_base64_image` |
| white space, URL-safe alphabet, missing padding, anything after the padding | `invalid_base64_image` |
"""

import asyncio
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pybase64

from models.processing.base import MediaError
from server.lane import in_lane
from server.media.fetch import Fetcher, FetchRules
from server.media.files import open_file
from server.media.item import MediaPart

KNOWN_FORMATS = frozenset({"wav", "mp3", "flac", "ogg", "opus", "m4a", "webm"})
"""What an `input_audio` part may call its data: the published wav and mp3, and as an extension the others.
The data may be any of them whatever it is called."""

_STRICT = "it is not strict base64: padded, without line breaks or blanks, as `base64 -w0` writes it"
_SLICE = 1 << 20  # characters decoded at once: a multiple of 4, and about a millisecond
_INLINE = 1 << 16  # characters decoded on the event loop
_DATA_URL = re.compile(r"data:[a-z0-9!#$&^_.+/-]*(?:;[a-z0-9!#$&^_.+-]+=[^;,\s]*)*;base64,", re.IGNORECASE)
_MAX_PREFIX = 1024


class Encoded(NamedTuple):
    """Encoded bytes of one item, as sent, and their sha256."""

    data: bytes
    digest: bytes


class SourceReader:
    """Reads parts within the operator's rules. root: the directory of `file:` URLs, None for none."""

    def __init__(self, fetch_rules: FetchRules | None = None, root: Path | None = None) -> None:
        self._fetcher = Fetcher(fetch_rules or FetchRules())
        self._root = root

    async def read(self, part: MediaPart, max_bytes: int, charge: Callable[[int], None]) -> Encoded:
        """charge(num_bytes) is called before more than that is held (but for what comes in one piece from the
        web), and may refuse. MediaError for anything wrong."""
        source = part.source
        if isinstance(source, bytes):
            return await _uploaded(source, part.kind, max_bytes, charge)
        scheme = source[:8].lower()
        if part.format is not None:
            if part.format.lower() not in KNOWN_FORMATS:
                message = f"Unknown audio format; use one of {', '.join(sorted(KNOWN_FORMATS))}."
                raise MediaError(message, "unsupported_audio_format")
            return await _from_base64(source, 0, part.kind, max_bytes, charge)
        if scheme.startswith("data:"):
            return await _from_base64(source, _data_start(source, part.kind), part.kind, max_bytes, charge)
        if scheme.startswith(("http:", "https:")):
            return await _digested(await self._fetcher.fetch(source, max_bytes, charge))
        if scheme.startswith("file:"):
            return await _digested(await self._from_file(source, max_bytes, charge))
        raise MediaError("The media URL must be a data, http or https URL.", "invalid_image_url")

    async def _from_file(self, url: str, max_bytes: int, charge: Callable[[int], None]) -> bytes:
        opened = await asyncio.to_thread(open_file, url, self._root, max_bytes)
        try:
            charge(opened.num_bytes)
        except MediaError:
            opened.close()
            raise
        return await asyncio.to_thread(opened.read)


def has_data(part: MediaPart) -> bool:
    """False for an empty source and for a data URL that ends with its comma."""
    source = part.source
    if isinstance(source, bytes) or part.format is not None or len(source) > _MAX_PREFIX:
        return bool(source)
    return bool(source) and _DATA_URL.fullmatch(source) is None


def _data_start(url: str, kind: str) -> int:
    match = _DATA_URL.match(url[: _MAX_PREFIX + 1])
    if match is None:
        raise _bad_base64(kind, "it must start with data:<type>;base64,")
    return match.end()


async def _uploaded(data: bytes, kind: str, max_bytes: int, charge: Callable[[int], None]) -> Encoded:
    if not data:
        raise _empty(kind)
    _check_size(len(data), kind, max_bytes)
    charge(len(data))
    return await _digested(data)


async def _digested(data: bytes) -> Encoded:
    return Encoded(data, await asyncio.to_thread(lambda: hashlib.sha256(data).digest()))


def _check_size(num_bytes: int, kind: str, max_bytes: int) -> None:
    if num_bytes > max_bytes:
        raise MediaError(f"The {kind} is larger than {max_bytes} bytes.", _TOO_LARGE[kind])


async def _from_base64(
    text: str, start: int, kind: str, max_bytes: int, charge: Callable[[int], None]
) -> Encoded:
    num_characters = len(text) - start
    if num_characters == 0:
        raise _empty(kind)
    num_bytes = num_characters // 4 * 3
    _check_size(num_bytes - 2, kind, max_bytes)
    charge(num_bytes)
    if num_characters <= _INLINE:
        return _decoded(text, start, kind)
    return await in_lane(num_characters, lambda: _decoded(text, start, kind))


def _decoded(text: str, start: int, kind: str) -> Encoded:
    """Strict base64, a slice at a time: in between other threads may run."""
    slices: list[bytes] = []
    digest = hashlib.sha256()
    for begin in range(start, len(text), _SLICE):
        try:
            decoded = pybase64.b64decode(text[begin : begin + _SLICE], validate=True)
        except ValueError:
            raise _bad_base64(kind, _STRICT) from None
        if begin + _SLICE < len(text) and len(decoded) != _SLICE // 4 * 3:
            raise _bad_base64(kind, "there is data after the padding")
        slices.append(decoded)
        digest.update(decoded)
    return Encoded(slices[0] if len(slices) == 1 else b"".join(slices), digest.digest())


_TOO_LARGE = {"image": "image_file_too_large", "audio": "audio_file_too_large"}


def _empty(kind: str) -> MediaError:
    if kind == "image":
        return MediaError("The image is empty.", "empty_image_file")
    return MediaError("The audio is empty.", "audio_too_short")


def _bad_base64(kind: str, why: str) -> MediaError:
    code = "invalid_base64_image" if kind == "image" else "invalid_audio"
    return MediaError(f"The {kind} data is not valid: {why}.", code)
