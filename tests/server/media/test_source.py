"""Base64 and data URLs by the strict table; what else a part may name."""

import asyncio
import base64
import hashlib
import os
import time
from pathlib import Path

import pytest

from models.processing.base import MediaError
from server.media.files import MediaFile
from server.media.item import MediaPart
from server.media.source import Encoded, SourceReader

DATA = os.urandom(1000)
TEXT = base64.b64encode(DATA).decode()


def read(part: MediaPart, max_bytes: int = 1 << 25) -> Encoded:
    async def run() -> Encoded:
        return await SourceReader().read(part, max_bytes, lambda _: None)

    return asyncio.run(run())


def image(source: str) -> MediaPart:
    return MediaPart("image", source)


def refusal(part: MediaPart, max_bytes: int = 1 << 25) -> str:
    with pytest.raises(MediaError) as caught:
        read(part, max_bytes)
    assert len(str(caught.value)) < 200
    return caught.value.code


def test_a_files_bytes_are_taken_as_they_are() -> None:
    assert read(MediaPart("audio", DATA), len(DATA)) == Encoded(DATA, hashlib.sha256(DATA).digest())
    assert refusal(MediaPart("audio", DATA), len(DATA) - 1) == "audio_file_too_large"
    assert refusal(MediaPart("audio", b"")) == "audio_too_short"


@pytest.mark.parametrize(
    "prefix",
    [
        "data:image/png;base64,",
        "data:image/png;charset=utf-8;base64,",
        "DATA:image/png;BASE64,",
        "data:;base64,",
        "data:application/octet-stream;base64,",
        "data:image/svg+xml;name=a.png;base64,",
    ],
)
def test_taken(prefix: str) -> None:
    assert read(image(prefix + TEXT)) == Encoded(DATA, hashlib.sha256(DATA).digest())


@pytest.mark.parametrize(
    "url",
    [
        "data:image/png;base64" + TEXT,
        "data:image/png," + TEXT,
        "data:image/png;utf8," + TEXT,
        "data:image/png;base64 ," + TEXT,
        "data: image/png;base64," + TEXT,
        "data:image/png;base64, " + TEXT,
        "data:image/png;base64," + TEXT[:76] + "\n" + TEXT[76:],
        "data:image/png;base64," + TEXT[:76] + "\r\n" + TEXT[76:],
        "data:image/png;base64," + TEXT + "\n",
        "data:image/png;base64,-_" + TEXT[2:],
        "data:image/png;base64," + base64.b64encode(b"ab").decode().rstrip("="),
        "data:image/png;base64," + base64.b64encode(b"abcd").decode() + TEXT,
        "data:image/png;base64," + TEXT + "junk!",
        "data:image/png;base64,!!!!",
        "data:image/png;base64,%89PNG",
        "data:image/png;base64,ÄÄÄÄ",
        "data:image/png;base64,\ud83d",
        "data:image/png;base64,A",
        "data:" + ";a=b" * 10_000 + ";base64," + TEXT,
    ],
)
def test_refused(url: str) -> None:
    assert refusal(image(url)) == "invalid_base64_image"


def test_empty() -> None:
    assert refusal(image("data:image/png;base64,")) == "empty_image_file"
    assert refusal(MediaPart("audio", "", "wav")) == "audio_too_short"


def test_data_after_padding_at_a_slice_border() -> None:
    """Inner slices may not be padded, though each alone would be valid base64."""
    padded = "A" * ((1 << 20) - 4) + "AA=="
    assert refusal(image("data:;base64," + padded + TEXT)) == "invalid_base64_image"
    assert len(read(image("data:;base64," + padded)).data) == (1 << 20) // 4 * 3 - 2


@pytest.mark.parametrize("num_bytes", [786_431, 786_432, 786_433, 3_000_001])
def test_slices_join(num_bytes: int) -> None:
    data = os.urandom(num_bytes)
    encoded = read(image("data:;base64," + base64.b64encode(data).decode()))
    assert encoded == Encoded(data, hashlib.sha256(data).digest())


def test_audio_data() -> None:
    for name in ("wav", "mp3", "WAV", "flac"):
        assert read(MediaPart("audio", TEXT, name)).data == DATA
    assert refusal(MediaPart("audio", TEXT, "aiff")) == "unsupported_audio_format"
    assert refusal(MediaPart("audio", "data:audio/wav;base64," + TEXT, "wav")) == "invalid_audio"
    assert refusal(MediaPart("audio", TEXT + "!", "wav")) == "invalid_audio"
    assert read(MediaPart("audio", "data:audio/wav;base64," + TEXT)).data == DATA


def test_size_is_refused_before_decoding() -> None:
    assert refusal(image("data:;base64," + TEXT), 999) == "image_file_too_large"
    assert refusal(MediaPart("audio", TEXT, "wav"), 100) == "audio_file_too_large"
    assert len(read(image("data:;base64," + TEXT), 1000).data) == 1000


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/a.png",
        "https://example.com/a.png",
        "file:///etc/passwd",
        "FILE:///etc/passwd",
        "/etc/passwd",
        "../a.png",
        "ftp://example.com/a.png",
        "gopher://example.com/",
        "javascript:alert(1)",
        "",
        TEXT,
    ],
)
def test_off_by_default(url: str) -> None:
    assert refusal(image(url)) == "invalid_image_url"


def test_a_file_is_charged_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").write_bytes(DATA)
    part, charged = image(f"file://{tmp_path}/a.png"), []
    reader = SourceReader(root=tmp_path)
    assert asyncio.run(reader.read(part, 1 << 20, charged.append)).data == DATA
    assert charged == [len(DATA)]

    def refuse(num_bytes: int) -> None:
        raise MediaError("too much", "image_file_too_large")

    monkeypatch.setattr(MediaFile, "read", None)
    with pytest.raises(MediaError, match="too much"):
        asyncio.run(reader.read(part, 1 << 20, refuse))


def test_event_loop_stays_free() -> None:
    """A large upload is decoded in slices: nothing else waits long."""
    part = image("data:;base64," + base64.b64encode(bytes(24 << 20)).decode())

    async def run() -> float:
        longest, reading = 0.0, asyncio.create_task(SourceReader().read(part, 1 << 25, lambda _: None))
        while not reading.done():
            begin = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - begin)
        return longest

    assert asyncio.run(run()) < 0.05
