"""What the header of a Vorbis stream makes its decoder build, counted before a decoder sees it.

Twenty bytes describe a code book of millions of entries, for which libvorbis takes its memory from the stack:
the process would end. Layout as in the Vorbis I specification, 3.2.1; code books come first in the header,
and what follows them can be no larger than they are.
"""

from server.media.ogg import first_packets

MAX_BOOK_ENTRIES = 1 << 14
"""Encoders write books of some thousands."""
MAX_VALUES = 1 << 20
"""Entries times dimensions, of all books together."""

_IDENTIFICATION, _SETUP = b"\x01vorbis", b"\x05vorbis"
_BOOK = 0x564342


def check_vorbis(encoded: bytes) -> None:
    """ValueError for an Ogg file that begins with a Vorbis stream whose header is damaged or too costly."""
    (first,) = first_packets(encoded, 1)
    if not first.startswith(_IDENTIFICATION):
        return
    *_, setup = first_packets(encoded, 3)
    if not setup.startswith(_SETUP):
        raise ValueError("no setup where it should be")
    bits = _Bits(setup[len(_SETUP) :])
    num_values = 0
    for _ in range(bits.read(8) + 1):
        num_values += _book_values(bits)
        if num_values > MAX_VALUES:
            raise ValueError("the code books are too large")


class _Bits:
    """Numbers of up to 32 bits, the least bit first. ValueError past the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def read(self, num_bits: int) -> int:
        start = self._position
        self.skip(num_bits)
        piece = int.from_bytes(self._data[start >> 3 : (self._position + 7) >> 3], "little")
        return (piece >> (start & 7)) & ((1 << num_bits) - 1)

    def skip(self, num_bits: int) -> None:
        self._position += num_bits
        if self._position > 8 * len(self._data):
            raise ValueError("the header is cut off")


def _book_values(bits: _Bits) -> int:
    """Entries times dimensions of the code book that comes next, which is read to its end."""
    if bits.read(24) != _BOOK:
        raise ValueError("no code book")
    dimensions, entries = bits.read(16), bits.read(24)
    if entries > MAX_BOOK_ENTRIES:
        raise ValueError("a code book is too large")
    _pass_lengths(bits, entries)
    lookup = bits.read(4)
    if lookup:
        bits.skip(64)
        value_bits = bits.read(4) + 1
        bits.skip(1)
        num_values = _lattice_side(entries, dimensions) if lookup == 1 else entries * dimensions
        bits.skip(num_values * value_bits)
    return entries * max(dimensions, 1)


def _pass_lengths(bits: _Bits, entries: int) -> None:
    if bits.read(1):  # ordered
        bits.skip(5)
        done = 0
        while done < entries:
            done += bits.read((entries - done).bit_length())
    elif bits.read(1):  # sparse
        for _ in range(entries):
            if bits.read(1):
                bits.skip(5)
    else:
        bits.skip(5 * entries)


def _lattice_side(entries: int, dimensions: int) -> int:
    """The largest number whose power of `dimensions` is no more than `entries`."""
    if not entries or not dimensions:
        return 0
    side = 1
    while (side + 1) ** dimensions <= entries:
        side += 1
    return side
