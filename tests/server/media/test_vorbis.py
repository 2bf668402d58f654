"""Headers of Vorbis streams that would cost their decoder the process, its memory or its time are refused."""

import io
import struct

import numpy as np
import pytest
import soundfile

from models.processing.base import MediaError
from server.media import audio
from server.media.limits import MediaLimits
from server.media.ogg import first_packets
from server.media.vorbis import MAX_BOOK_ENTRIES, MAX_VALUES, check_vorbis

IDENTIFICATION = b"\x01vorbis" + struct.pack("<IBIiiiBB", 0, 1, 16000, 0, 64000, 0, 0xB8, 1)
COMMENT = b"\x03vorbis" + struct.pack("<I", 1) + b"x" + struct.pack("<I", 0) + b"\x01"
SILENCE = [bytes(4)] * 20


class Bits:
    def __init__(self) -> None:
        self._value = self._length = 0

    def add(self, *fields: tuple[int, int]) -> None:
        """(value, number of bits) of each."""
        for value, num_bits in fields:
            self._value |= value << self._length
            self._length += num_bits

    def bytes(self) -> bytes:
        return self._value.to_bytes((self._length + 7) // 8, "little")


def setup(num_books: int, log_entries: int, dimensions: int = 1) -> bytes:
    """A header that libvorbis takes: code books of 2**log_entries words of one length, and hardly more."""
    bits, entries = Bits(), 1 << log_entries
    bits.add((num_books - 1, 8))
    for _ in range(num_books):
        bits.add((0x564342, 24), (dimensions, 16), (entries, 24), (1, 1), (log_entries - 1, 5))
        bits.add((entries, log_entries + 1), (0, 4))
    bits.add((0, 6), (0, 16))  # times
    bits.add((0, 6), (1, 16), (0, 5), (0, 2), (8, 4))  # floors
    bits.add((0, 6), (0, 16), (0, 24), (0, 24), (0, 24), (0, 6), (0, 8), (0, 4))  # residues
    bits.add((0, 6), (0, 16), (0, 4), (0, 24))  # mappings
    bits.add((0, 6), (0, 1), (0, 16), (0, 16), (0, 8), (1, 1))  # modes, end
    return b"\x05vorbis" + bits.bytes()


def checksum(page: bytes) -> int:
    """Bit by bit, as RFC 3533 describes it."""
    register = 0
    for byte in page:
        register ^= byte << 24
        for _ in range(8):
            register = (register << 1 ^ (0x04C11DB7 if register >> 31 else 0)) & 0xFFFFFFFF
    return register


def page(number: int, packets: list[bytes], flags: int = 0, serial: int = 1) -> bytes:
    lacing = b"".join(b"\xff" * (len(packet) // 255) + bytes([len(packet) % 255]) for packet in packets)
    length = 16000 if number > 1 else 0
    head = b"OggS\0" + struct.pack("<BqIIIB", flags, length, serial, number, 0, len(lacing)) + lacing
    whole = head + b"".join(packets)
    return whole[:22] + struct.pack("<I", checksum(whole)) + whole[26:]


def pages(header: bytes) -> list[bytes]:
    return [page(0, [IDENTIFICATION], 2), page(1, [COMMENT, header]), page(2, SILENCE, 4)]


def decode(encoded: bytes) -> np.ndarray:
    return audio.decode_audio(encoded, 16000, MediaLimits())


def refused(encoded: bytes, monkeypatch: pytest.MonkeyPatch) -> str:
    """No decoder may so much as open it."""
    monkeypatch.setattr(soundfile, "SoundFile", lambda _: pytest.fail("it was opened"))
    with pytest.raises(MediaError) as caught:
        decode(encoded)
    return caught.value.code


def test_a_small_header_of_this_making_is_taken() -> None:
    assert len(decode(b"".join(pages(setup(2, 4)))))


@pytest.mark.parametrize(
    ("num_books", "log_entries", "dimensions"),
    [(1, 22, 1), (1, MAX_BOOK_ENTRIES.bit_length(), 1), (200, 13, 1), (3, 4, MAX_VALUES >> 5)],
)
def test_large_books_are_refused(
    num_books: int, log_entries: int, dimensions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = setup(num_books, log_entries, dimensions)
    assert refused(b"".join(pages(header)), monkeypatch) == "invalid_audio"


FIRST, SECOND, THIRD = pages(setup(1, 4))
OTHER = page(0, [b"fishead\0"], 2, serial=7)


@pytest.mark.parametrize(
    "encoded",
    [
        FIRST + b"between" + SECOND + THIRD,
        FIRST + SECOND[:-1] + b"?" + SECOND + THIRD,
        FIRST + page(5, [COMMENT, setup(1, 4)]) + THIRD,
        FIRST + page(1, [COMMENT, setup(1, 4)], flags=1) + THIRD,
        FIRST + page(1, [COMMENT, b"other", setup(1, 4)]) + THIRD,
        FIRST + SECOND[: len(SECOND) // 2],
        FIRST + page(1, [COMMENT, setup(1, 4)[:14]]),
        FIRST + page(1, [COMMENT, setup(1, 4).replace(b"BCV", b"BCX")]),
        FIRST,
        b"OggS" + bytes(100),
    ],
    ids=["gap", "damaged", "missing", "continued", "other", "cut", "short", "no book", "alone", "zeros"],
)
def test_a_header_that_readers_could_find_elsewhere_is_refused(
    encoded: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused(encoded, monkeypatch) == "invalid_audio"


def test_streams_beside_the_first_are_passed_over() -> None:
    assert len(decode(FIRST + OTHER + SECOND + THIRD))


def test_a_packet_may_go_on_from_page_to_page() -> None:
    packet = bytes(range(256)) * 300
    parts = [packet[:65025], packet[65025:]]
    whole = b"OggS\0" + struct.pack("<BqIIIB", 2, 0, 1, 0, 0, 255) + b"\xff" * 255 + parts[0]
    first = whole[:22] + struct.pack("<I", checksum(whole)) + whole[26:]
    assert first_packets(first + page(1, [parts[1], b"end"], flags=1), 2) == [packet, b"end"]


@pytest.mark.parametrize("rate", [8000, 16000, 44100, 192000])
@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
def test_what_the_encoder_writes_is_taken(rate: int, channels: int, level: float) -> None:
    file = io.BytesIO()
    try:
        soundfile.write(file, np.zeros((10, channels)), rate, "VORBIS", format="OGG", compression_level=level)
    except soundfile.LibsndfileError:
        pytest.skip("it writes no such file")
    check_vorbis(file.getvalue())
