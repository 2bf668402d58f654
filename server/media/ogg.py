"""The first packets of an Ogg file, read so strictly that no other reader can find others in their place.

Pages as RFC 3533 has them. Knows nothing of what is in the packets.
"""

import zlib

_HEAD_BYTES = 27
_CHECKSUM = slice(22, 26)
_CONTINUED, _LAST = 1, 4
_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def first_packets(encoded: bytes, count: int) -> list[bytes]:
    """Of the stream that the file begins with; others between its pages are passed over. ValueError unless
    all pages up to there are whole, follow each other closely and belong together."""
    packets: list[bytes] = []
    unfinished: list[bytes] = []
    serial, next_number, position = b"", 0, 0
    while len(packets) < count:
        head = encoded[position : position + _HEAD_BYTES]
        if len(head) < _HEAD_BYTES or head[:5] != b"OggS\0":
            raise ValueError("no page of Ogg")
        body = position + _HEAD_BYTES + head[26]
        sizes = encoded[position + _HEAD_BYTES : body]
        end = body + sum(sizes)
        if end > len(encoded) or _checksum(encoded[position:end]) != head[_CHECKSUM]:
            raise ValueError("a damaged page of Ogg")
        number = int.from_bytes(head[18:22], "little")
        if not position:
            serial, next_number = head[14:18], number
        if head[14:18] == serial:
            if number != next_number or bool(head[5] & _CONTINUED) != bool(unfinished):
                raise ValueError("a missing page of Ogg")
            next_number += 1
            for size in sizes:
                unfinished.append(encoded[body : body + size])
                body += size
                if size < 255:
                    packets.append(b"".join(unfinished))
                    unfinished = []
        position = end
    return packets[:count]


def is_cut_off(encoded: bytes) -> bool:
    """Whether the file ends otherwise than with the whole last page of a stream."""
    start = encoded.rfind(b"OggS\0")
    head = encoded[start : start + _HEAD_BYTES]
    if start < 0 or len(head) < _HEAD_BYTES or not head[5] & _LAST:
        return True
    body = start + _HEAD_BYTES + head[26]
    return body + sum(encoded[start + _HEAD_BYTES : body]) > len(encoded)


def _checksum(page: bytes) -> bytes:
    """Ogg's CRC is that of zlib with every bit sequence the other way round and no inversions."""
    bare = page[: _CHECKSUM.start] + bytes(4) + page[_CHECKSUM.stop :]
    mirrored = zlib.crc32(bare.translate(_MIRRORED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return mirrored.to_bytes(4, "big").translate(_MIRRORED)
