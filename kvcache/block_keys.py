"""Identity of a cache block: all before it, its tokens, the media behind them, and who may see it."""

import struct
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NewType

import xxhash

from kvcache.keys import frame
from kvcache.spans import MediaSpan

BlockKey = NewType("BlockKey", bytes)
"""Up to 16 bytes under which a block is looked up. An index, not a proof: equal keys are compared in full on
a hit."""

SCHEME = b"intarsia-block-1"
MAX_HASH_BITS = 128


def block_key(
    parent: BlockKey | None,
    ids: Sequence[int],
    spans: Iterable[MediaSpan],
    namespace: bytes,
    hash_bits: int = MAX_HASH_BITS,
) -> BlockKey:
    """The key of a block of token `ids` that follows the block `parent` (None: the first of its sequence).

    spans: clipped to the block, so `offset` is the content's token at the block's first token in the span,
    and `start`, `end` say where in the block it sits. hash_bits: a multiple of 8 up to 128; tests shorten it
    to force collisions.
    """
    parts = [SCHEME, parent or b"", namespace, _ids_layout(len(ids)).pack(*ids)]
    for span in spans:
        parts += (_SPAN.pack(span.start, span.end, span.offset), span.key)
    return BlockKey(xxhash.xxh3_128_digest(frame(*parts))[: hash_bits // 8])


@cache
def _ids_layout(num_ids: int) -> struct.Struct:
    return struct.Struct(f"<{num_ids}q")


_SPAN = struct.Struct("<QQQ")
