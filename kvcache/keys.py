"""Identity of media: what makes two pictures, or two sounds, the same thing. Knows bytes only."""

import hashlib
import struct
from collections.abc import Iterable
from typing import NewType

MediaKey = NewType("MediaKey", bytes)
"""32 bytes that stand for one picture or sound as one model sees it."""

MEDIA_KEY_SCHEME = b"intarsia-media-1"


def content_digest(encoded: bytes | memoryview) -> bytes:
    """sha256 of the encoded bytes: input is hostile, so a strong hash; identity is known before anything is
    decoded."""
    return hashlib.sha256(encoded).digest()


def media_key(kind: str, digest: bytes, fingerprint: str, options: str = "") -> MediaKey:
    """Identity of media as prepared by one processor.

    kind: "image" or "audio". fingerprint: names the processor, its settings and the versions that shape its
    output. options: canonical text of the request's options that change the result (say `max_pixels=262144`).
    """
    parts = (MEDIA_KEY_SCHEME, kind.encode(), digest, fingerprint.encode(), options.encode())
    return MediaKey(hashlib.sha256(frame(*parts)).digest())


def frame(*parts: bytes) -> bytes:
    """Join parts so that no two different lists of parts give the same bytes: each is preceded by its
    length."""
    return b"".join(_framed(parts))


def _framed(parts: Iterable[bytes]) -> Iterable[bytes]:
    for part in parts:
        yield _LENGTH.pack(len(part))
        yield part


_LENGTH = struct.Struct("<Q")
