"""Identity: what makes two media, or two cache blocks, the same thing. Knows bytes only, not where they are
held."""

import hashlib
import struct
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NewType

import xxhash

if TYPE_CHECKING:
    from kvcache.spans import MediaSpan

MediaKey = NewType("MediaKey", bytes)
"""32 bytes that stand for one picture or sound as one model sees it."""

BlockKey = NewType("BlockKey", bytes)
"""Up to 16 bytes under which a block is looked up. An index, not a proof: equal keys are compared in full on
a hit."""

MEDIA_KEY_SCHEME = b"intarsia-media-1"
BLOCK_KEY_SCHEME = b"intarsia-block-1"
MAX_HASH_BITS = 128


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


def block_key(
    parent: BlockKey | None,
    ids: Sequence[int],
    spans: Iterable["MediaSpan"],
    namespace: bytes,
    hash_bits: int = MAX_HASH_BITS,
) -> BlockKey:
    """The key of a block of token `ids` that follows the block `parent` (None: the first of its sequence).

    spans: clipped to the block, so `offset` is the content's token at the block's first token in the span,
    and `start`, `end` say where in the block it sits. hash_bits: a multiple of 8 up to 128; tests shorten it
    to force collisions.
    """
    parts = [BLOCK_KEY_SCHEME, parent or b"", namespace, _ids_layout(len(ids)).pack(*ids)]
    for span in spans:
        parts += (_SPAN.pack(span.start, span.end, span.offset), span.key)
    return BlockKey(xxhash.xxh3_128_digest(frame(*parts))[: hash_bits // 8])


def frame(*parts: bytes) -> bytes:
    """Join parts so that no two different lists of parts give the same bytes: each is preceded by its
    length."""
    return b"".join(_framed(parts))


def _framed(parts: Iterable[bytes]) -> Iterable[bytes]:
    for part in parts:
        yield _LENGTH.pack(len(part))
        yield part


@cache
def _ids_layout(num_ids: int) -> struct.Struct:
    return struct.Struct(f"<{num_ids}q")


_LENGTH = struct.Struct("<Q")
_SPAN = struct.Struct("<QQQ")
