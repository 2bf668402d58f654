"""Files whose parts are many are refused before a decoder sees them; what encoders write is taken."""

import struct

import pytest
from PIL import Image

from models.processing.base import MediaError
from server.media import image_parts
from server.media.image import decode_image, read_header
from server.media.image_parts import MAX_CHUNKS, MAX_SCANS, MAX_SEGMENTS
from tests import media_factory as factory

PROGRESSIVE = factory.encode(factory.gradient(64, 48), "JPEG", progressive=True)
PLAIN = factory.encode(factory.gradient(64, 48), "JPEG")
FIRST_SCAN = PLAIN.index(b"\xff\xda")


def refusal(encoded: bytes, monkeypatch: pytest.MonkeyPatch) -> str:
    """No decoder may so much as open it."""
    monkeypatch.setattr(Image, "open", None)
    with pytest.raises(MediaError) as caught:
        read_header(encoded, 36_000_000)
    return f"{caught.value.code}: {caught.value}"


def taken(encoded: bytes) -> None:
    read_header(encoded, 36_000_000)
    decode_image(encoded)


def num_scans(encoded: bytes) -> int:
    return sum(mark == 0xDA for mark in image_parts._jpeg_marks(encoded))


def with_scans(num_more: int) -> bytes:
    """The last scan of a progressive picture again and again."""
    last = PROGRESSIVE[PROGRESSIVE.rindex(b"\xff\xda") : -2]
    return PROGRESSIVE[:-2] + last * num_more + b"\xff\xd9"


def test_scans_of_a_jpeg_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    before = num_scans(PROGRESSIVE)
    assert 5 < before < 20
    assert num_scans(PLAIN) == 1
    taken(with_scans(MAX_SCANS - before))
    assert "100 scans" in refusal(with_scans(MAX_SCANS - before + 1), monkeypatch)


@pytest.mark.parametrize("fill", [b"\xff", b"\xff" * 9, b"\x00\x01", b"\xff\x01", b"\xff\xd3"])
def test_scans_behind_what_a_decoder_skips_are_counted(fill: bytes) -> None:
    again = PROGRESSIVE[PROGRESSIVE.rindex(b"\xff\xda") : -2]
    assert num_scans(PROGRESSIVE[:-2] + fill + again + b"\xff\xd9") == num_scans(PROGRESSIVE) + 1


def test_marks_within_segments_and_behind_the_end_are_no_scans() -> None:
    """Thumbnails have scans of their own, and telephones put films behind the picture."""
    thumbnail = b"\xff\xe1" + struct.pack(">H", 2 + 2 * len(PLAIN)) + PLAIN * 2
    encoded = PLAIN[:2] + thumbnail * 60 + PLAIN[2:] + b"\xff\xda" * 200
    assert num_scans(encoded) == 1
    taken(encoded)


def test_marks_across_the_border_of_a_piece_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = num_scans(PROGRESSIVE)
    for piece in (1, 2, 7):
        monkeypatch.setattr(image_parts, "_PIECE", piece)
        assert num_scans(PROGRESSIVE) == expected


def test_segments_of_a_jpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    more = MAX_SEGMENTS - sum(1 for _ in image_parts._jpeg_marks(PLAIN))
    taken(PLAIN[:2] + b"\xff\xe5\x00\x02" * more + PLAIN[2:])
    assert "segments" in refusal(PLAIN[:2] + b"\xff\xe5\x00\x02" * (more + 1) + PLAIN[2:], monkeypatch)


@pytest.mark.parametrize("mark", sorted(image_parts._ARITHMETIC))
def test_arithmetic_codes(mark: int, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = bytearray(PLAIN)
    encoded[PLAIN.index(b"\xff\xc0") + 1] = mark
    assert "unsupported_image_media_type" in refusal(bytes(encoded), monkeypatch)


def test_chunks_of_a_png(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_chunks(num_more: int) -> bytes:
        chunk = factory.png(1, 1, 8, 0, b"\0\0", (b"abCd", b""))[33:45]
        return picture[:33] + chunk * num_more + picture[33:]

    picture = factory.encode(factory.gradient(8, 8))
    taken(with_chunks(MAX_CHUNKS - 3))
    assert "chunks" in refusal(with_chunks(MAX_CHUNKS), monkeypatch)


@pytest.mark.parametrize("compression", [1, 2])
def test_run_lengths(compression: int, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = bytearray(factory.encode(factory.gradient(8, 8), "BMP"))
    encoded[30] = compression
    assert "unsupported_image_media_type" in refusal(bytes(encoded), monkeypatch)
