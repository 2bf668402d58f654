"""What a picture's file is made of, counted before a decoder walks through it.

Limits on bytes and pixels don't bound a decoder's work where parts that cost nothing to send are gone through
again and again: 14 bytes are another scan over all pixels of a JPEG. What no program writes and only a slow
decoder takes is refused here too. Knows marks and lengths; decodes nothing.
"""

import re
from collections.abc import Iterator

from models.processing.base import MediaError

MAX_SCANS = 100
"""Of a JPEG. Encoders write about ten."""
MAX_SEGMENTS = 1024
"""Of a JPEG: a colour profile may have 255 of them."""
MAX_CHUNKS = 65_536
"""Of a PNG."""

_PIECE = 1 << 20  # bytes searched at once: in between other threads may run
_MARK = re.compile(rb"\xff[\xc0-\xcf\xd8-\xfe]")
_START_OF_IMAGE, _END_OF_IMAGE, _START_OF_SCAN = 0xD8, 0xD9, 0xDA
_ARITHMETIC = frozenset({0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF})
_RUN_LENGTHS = (1, 2)


def check_parts(encoded: bytes, format: str) -> None:
    """format: as Pillow calls it. MediaError for a file that a decoder would be busy with for far longer than
    its size says."""
    if format == "JPEG":
        _check_jpeg(encoded)
    elif format == "PNG":
        _check_png(encoded)
    elif format == "BMP" and int.from_bytes(encoded[30:34], "little") in _RUN_LENGTHS:
        raise _not_taken("Run-length encoded BMP")


def _check_jpeg(encoded: bytes) -> None:
    num_scans = 0
    for num_segments, mark in enumerate(_jpeg_marks(encoded), 1):
        if mark in _ARITHMETIC:
            raise _not_taken("Arithmetically coded JPEG")
        num_scans += mark == _START_OF_SCAN
        if num_scans > MAX_SCANS:
            raise _too_many("scans", MAX_SCANS)
        if num_segments > MAX_SEGMENTS:
            raise _too_many("segments", MAX_SEGMENTS)


def _jpeg_marks(encoded: bytes) -> Iterator[int]:
    """The second byte of each segment's mark. What lies within segments is passed over; in a scan's data, a
    0xFF is followed by zero or a restart's number, neither of which is a mark here."""
    position: int | None = 2
    while (position := _next_mark(encoded, position)) is not None:
        mark = encoded[position + 1]
        if mark == _END_OF_IMAGE:
            return
        yield mark
        length = int.from_bytes(encoded[position + 2 : position + 4], "big")
        position += 2 if mark == _START_OF_IMAGE else 2 + max(length, 2)


def _next_mark(encoded: bytes, begin: int) -> int | None:
    for start in range(begin, len(encoded), _PIECE):
        if found := _MARK.search(encoded, start, start + _PIECE + 1):
            return found.start()
    return None


def _check_png(encoded: bytes) -> None:
    position = 8
    for _ in range(MAX_CHUNKS):
        if position >= len(encoded) or encoded[position + 4 : position + 8] == b"IEND":
            return
        position += 12 + int.from_bytes(encoded[position : position + 4], "big")
    raise _too_many("chunks", MAX_CHUNKS)


def _too_many(parts: str, most: int) -> MediaError:
    return MediaError(f"The image's file has more than {most} {parts}.", "image_parse_error")


def _not_taken(kind: str) -> MediaError:
    return MediaError(f"{kind} images are not supported; send PNG or JPEG.", "unsupported_image_media_type")
