"""Every kind of picture becomes the one that people see, or a refusal in plain words."""

import hashlib
import io
import os
import re
import struct
import subprocess
import sys
import time
from datetime import timedelta
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from PIL import Image, ImageCms

from models.processing.base import MediaError
from server.media.colour_profile import without_programs
from server.media.image import decode_image, read_header
from tests import media_factory as factory
from tests.server.media.mutations import mutated

INTERNALS = re.compile(r"0x[0-9a-f]{6,}|Traceback|BytesIO|PIL|site-packages|/\w+/\w+")
MAX_PIXELS = 36_000_000


def canonical(encoded: bytes) -> np.ndarray:
    read_header(encoded, MAX_PIXELS)
    image = decode_image(encoded)
    assert image.mode == "RGB"
    return np.asarray(image)


def refusal(encoded: bytes) -> str:
    with pytest.raises(MediaError) as caught:
        canonical(encoded)
    assert not INTERNALS.search(str(caught.value))
    return caught.value.code


def taken_or_refused(encoded: bytes) -> np.ndarray | str:
    try:
        return canonical(encoded)
    except MediaError as error:
        message = str(error)
    assert not INTERNALS.search(message)
    return message


@pytest.mark.parametrize("format", ["PNG", "BMP", "GIF", "WEBP", "JPEG"])
def test_formats_give_the_same_pixels(format: str) -> None:
    picture = factory.solid((0, 255, 0), 40, 30)
    options = {"lossless": True} if format == "WEBP" else {}
    pixels = canonical(factory.encode(picture, format, **options)).astype(int)
    assert pixels.shape == (30, 40, 3)
    assert np.abs(pixels - [0, 255, 0]).max() <= (2 if format == "JPEG" else 0)


GOLDEN = {
    "rgb": (factory.gradient(37, 23), "235a75208d74fd28"),
    "grey": (factory.gradient(37, 23).convert("L"), "fb54123f4a7eff25"),
}


@pytest.mark.parametrize("kind", GOLDEN)
def test_golden_pixels(kind: str) -> None:
    """The canonical pixels of lossless pictures never change, since cached content depends on them."""
    picture, digest = GOLDEN[kind]
    pixels = canonical(factory.encode(picture))
    assert (pixels == np.asarray(picture.convert("RGB"))).all()
    assert hashlib.sha256(pixels.tobytes()).hexdigest()[:16] == digest


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied(format: str, orientation: int) -> None:
    picture = factory.gradient(48, 32)
    pixels = canonical(factory.with_orientation(picture, orientation, format)).astype(int)
    assert pixels.shape == (32, 48, 3)
    assert np.abs(pixels - np.asarray(picture).astype(int)).mean() < 3


def transparent_pictures() -> dict[str, bytes]:
    """All red, but fully transparent, with the colour still there underneath."""
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([255, 0, 0, 0, 0, 255])
    rgb_rows = (b"\0" + b"\xff\x00\x00" * 8) * 8
    grey_rows = (b"\0" + b"\x60" * 8) * 8
    deep_rows = (b"\0" + b"\x12\x34" * 8) * 8
    return {
        "RGBA": factory.encode(factory.solid((255, 0, 0, 0), 8, 8, "RGBA")),
        "LA": factory.encode(factory.solid((90, 0), 8, 8, "LA")),
        "P": factory.encode(palette, transparency=0),
        "P bytes": factory.encode(palette, transparency=b"\0\xff"),
        "RGB": factory.png(8, 8, 8, 2, rgb_rows, (b"tRNS", struct.pack(">3H", 255, 0, 0))),
        "L": factory.png(8, 8, 8, 0, grey_rows, (b"tRNS", struct.pack(">H", 0x60))),
        "I;16": factory.png(8, 8, 16, 0, deep_rows, (b"tRNS", struct.pack(">H", 0x1234))),
        "GIF": factory.encode(palette, "GIF", transparency=0),
        "WEBP": factory.encode(
            factory.solid((255, 0, 0, 0), 8, 8, "RGBA"), "WEBP", lossless=True, exact=True
        ),
    }


@pytest.mark.parametrize("kind", transparent_pictures())
def test_transparency_is_white(kind: str) -> None:
    assert (canonical(transparent_pictures()[kind]) == 255).all()


@cache
def kinds_of_pixels() -> dict[str, bytes]:
    size = (1500, 1000)
    picture, profile = factory.gradient(*size), ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
    clear = Image.merge("RGBA", (*picture.split(), picture.getchannel("R")))
    more = {"icc_profile": profile.tobytes()}
    row = b"\0" + np.arange(size[0], dtype=">u2").tobytes()
    return {
        "16 bits": factory.png(*size, 16, 0, row * size[1]),
        "16 bits, one clear": factory.png(*size, 16, 0, row * size[1], (b"tRNS", b"\0\7")),
        "RGB, one clear": factory.encode(picture, transparency=(1, 2, 3), **more),
        "LA": factory.encode(clear.convert("LA"), **more),
        "P": factory.encode(picture.quantize(16), transparency=0, **more),
        "CMYK": factory.encode(picture.convert("CMYK"), "JPEG", progressive=True, **more),
        "JPEG": factory.encode(picture, "JPEG", progressive=True, subsampling=0, **more),
        "WEBP": factory.encode(clear, "WEBP", method=0, **more),
        "WEBP lossless": factory.encode(clear, "WEBP", lossless=True, method=0, quality=0, **more),
        "BMP": factory.encode(picture, "BMP"),
    }


@pytest.mark.parametrize("kind", kinds_of_pixels())
def test_decoding_takes_no_more_than_is_reserved(kind: str) -> None:
    encoded = kinds_of_pixels()[kind]
    reserved = read_header(encoded, MAX_PIXELS).decoding_bytes
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not os.access(reset, os.W_OK):
        pytest.skip("this system does not tell a process's peak")

    def bytes_of(name: str) -> int:
        return int(status.read_text().partition(f"{name}:")[2].split()[0]) << 10

    reset.write_text("5")  # the peak begins anew
    before = bytes_of("VmRSS")
    image = decode_image(encoded)
    assert bytes_of("VmHWM") - before <= reserved + (4 << 20)
    assert type(image) is Image.Image, "the file's own object holds more than pixels"


def test_half_transparency_is_blended() -> None:
    pixels = canonical(factory.encode(factory.solid((255, 0, 0, 128), 8, 8, "RGBA")))
    assert np.abs(pixels.astype(int) - [255, 127, 127]).max() <= 1


def test_sixteen_bits_are_scaled() -> None:
    deep = Image.fromarray(np.full((4, 4), 40000, np.uint16))
    assert (canonical(factory.encode(deep)) == 156).all()
    rows = (b"\0" + struct.pack(">3H", 40000, 20000, 65535) * 4) * 4
    assert np.abs(canonical(factory.png(4, 4, 16, 2, rows)).astype(int) - [156, 78, 255]).max() <= 1


def test_one_bit() -> None:
    assert (canonical(factory.encode(Image.new("1", (9, 9), 1))) == 255).all()


def test_cmyk_jpeg() -> None:
    pixels = canonical(factory.encode(factory.solid((0, 255, 255, 0), 32, 32, "CMYK"), "JPEG", quality=100))
    assert np.abs(pixels.astype(int) - [255, 0, 0]).max() <= 4


def test_colour_profile_is_converted() -> None:
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
    same = canonical(factory.encode(factory.gradient(16, 16), icc_profile=lab.tobytes()))
    assert np.abs(same.astype(int) - np.asarray(factory.gradient(16, 16)).astype(int)).max() <= 2
    wide = swapped_primaries(lab.tobytes())
    red = canonical(factory.encode(factory.solid((255, 0, 0), 8, 8), icc_profile=wide))
    assert red[0, 0, 1] > 200 > 60 > red[0, 0, 0]


def swapped_primaries(profile: bytes) -> bytes:
    """A profile whose red is green and the other way round: a wide gamut that shows."""
    return profile.replace(b"rXYZ", b"?XYZ").replace(b"gXYZ", b"rXYZ").replace(b"?XYZ", b"gXYZ")


def with_tag(profile: bytes, name: bytes, content: bytes) -> bytes:
    """The profile with one more tag at its end."""
    num_tags = int.from_bytes(profile[128:132], "big")
    table, data = profile[132 : 132 + 12 * num_tags], profile[132 + 12 * num_tags :]
    entries = [struct.unpack(">4sII", table[at : at + 12]) for at in range(0, len(table), 12)]
    entries = [(tag, start + 12, size) for tag, start, size in entries]
    entries.append((name, len(profile) + 12, len(content)))
    whole = profile[:128] + struct.pack(">I", num_tags + 1)
    whole += b"".join(struct.pack(">4sII", *entry) for entry in entries) + data + content
    return struct.pack(">I", len(whole)) + whole[4:8] + b"\4\x40\0\0" + whole[12:]


def multi_process(num_elements: int) -> bytes:
    """One element named again and again. It turns all that it is given into nothing."""
    element = b"matf" + bytes(4) + struct.pack(">HH", 3, 3) + bytes(4 * 12)
    start = 16 + 8 * num_elements
    head = b"mpet" + bytes(4) + struct.pack(">HHI", 3, 3, num_elements)
    return head + struct.pack(">II", start, len(element)) * num_elements + element


def test_a_colour_profile_is_no_program() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    programmed = with_tag(profile, b"D2B0", multi_process(3))
    picture = factory.solid((250, 120, 10), 8, 8)
    engine = ImageCms.profileToProfile(
        picture, ImageCms.getOpenProfile(io.BytesIO(programmed)), ImageCms.createProfile("sRGB")
    )
    assert engine is not None
    assert np.asarray(engine)[0, 0, 0] < 200, "the colour engine does not run it"
    pixels = canonical(factory.encode(picture, icc_profile=programmed))
    assert np.abs(pixels.astype(int) - [250, 120, 10]).max() <= 2


@pytest.mark.parametrize("length", [0, 100, 130, 132, 135, 150])
def test_a_colour_profile_that_is_cut_off_stays_as_it_is(length: int) -> None:
    profile = (bytes(128) + b"\xff" * 4 + b"rXYZ" * 10)[:length]
    assert without_programs(profile) == profile


def test_what_is_odd_about_a_file_is_not_logged() -> None:
    """In a process of its own: here warnings are errors."""
    entries = [struct.pack("<HHII", tag, 1, (1 << 31) + tag, 0) for tag in range(50)]
    exif = b"II*\0" + struct.pack("<IH", 8, len(entries)) + b"".join(entries) + bytes(4)
    encoded = factory.encode(factory.gradient(8, 8), "PNG", exif=exif)
    code = (
        "import sys; from server.media.image import decode_image; decode_image(sys.stdin.buffer.read()).info"
    )
    done = subprocess.run([sys.executable, "-c", code], input=encoded, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_broken_colour_profile_is_ignored() -> None:
    pixels = canonical(factory.encode(factory.solid((9, 8, 7), 8, 8), icc_profile=b"nonsense"))
    assert (pixels == [9, 8, 7]).all()


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG"])
def test_first_frame_of_animations(format: str) -> None:
    frames = [factory.solid(color, 16, 16) for color in ("red", "lime", "blue")]
    options = {"lossless": True} if format == "WEBP" else {}
    encoded = factory.encode(
        frames[0], format, save_all=True, append_images=frames[1:], duration=50, **options
    )
    assert (canonical(encoded) == [255, 0, 0]).all()


@pytest.mark.parametrize(
    "size", [(1, 1), (1, 7), (2, 2), (26, 28), (17, 134), (10000, 1), (1, 10000), (400, 800)]
)
def test_odd_sizes(size: tuple[int, int]) -> None:
    assert canonical(factory.encode(Image.new("RGB", size, "white"))).shape == (size[1], size[0], 3)


@pytest.mark.parametrize("size", [(12000, 12000), (9000, 9000)])
def test_bombs_are_refused_from_the_header(size: tuple[int, int]) -> None:
    encoded = factory.one_bit_png(*size)
    started = time.process_time()
    assert refusal(encoded) == "image_too_large"
    assert time.process_time() - started < 0.05


def test_giant_claims() -> None:
    assert refusal(factory.png(2**31 - 1, 2**31 - 1, 8, 2, b"")) == "image_too_large"
    assert refusal(factory.png(2**31 - 1, 0, 8, 2, b"")) in ("image_parse_error", "image_too_small")
    gif = bytearray(factory.encode(factory.solid("red", 8, 8), "GIF"))
    gif[6:10] = struct.pack("<HH", 65535, 65535)
    assert refusal(bytes(gif)) == "image_too_large"


@pytest.mark.parametrize("options", [{}, {"lossless": True}, {"lossless": True, "alpha": True}])
def test_webp_claims_are_read_before_it_is_opened(options: dict[str, bool]) -> None:
    mode = "RGBA" if options.pop("alpha", False) else "RGB"
    image = factory.solid((1, 2, 3, 4)[: len(mode)], 50, 40, mode)
    encoded = factory.encode(image, "WEBP", exif=b"Exif\0\0" if mode == "RGBA" else b"", **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Image, "open", None)
        with pytest.raises(MediaError, match="50x40"):
            read_header(encoded, 50 * 40 - 1)


def broken_pictures() -> dict[str, bytes]:
    png = factory.encode(factory.noise(64, 64))
    jpeg = factory.encode(factory.gradient(256, 256), "JPEG")
    crc = bytearray(png)
    crc[60] ^= 0xFF
    return {
        "cut png": png[:-128],
        "cut jpeg": jpeg[:-128],
        "bad crc": bytes(crc),
        "garbage": bytes(range(256)) * 4,
        "html": b"<!DOCTYPE html><html><body>404</body></html>",
        "pdf": b"%PDF-1.7\n1 0 obj\n<<>>",
        "signature only": b"\x89PNG\r\n\x1a\n",
        "jpeg start only": b"\xff\xd8\xff",
        "cut gif": factory.encode(factory.noise(64, 64), "GIF")[:200],
        "cut webp": factory.encode(factory.noise(64, 64), "WEBP")[:-100],
        "corrupt 6 MB": png[:500] + bytes(6 << 20),
    }


@pytest.mark.parametrize("kind", broken_pictures())
def test_broken_files(kind: str) -> None:
    started = time.process_time()
    assert refusal(broken_pictures()[kind]) == "image_parse_error"
    assert time.process_time() - started < 1


def test_png_without_its_end_is_whole() -> None:
    png = factory.encode(factory.gradient(64, 64))
    assert (canonical(png[:-12]) == canonical(png)).all()


def test_empty() -> None:
    assert refusal(b"") == "empty_image_file"


OTHER = {
    "svg": b'<svg xmlns="http://www.w3.org/2000/svg"/>',
    "svg with declaration": b'<?xml version="1.0"?><svg/>',
    "eps": b"%!PS-Adobe-3.0 EPSF-3.0\n",
    "ico": b"\x00\x00\x01\x00\x01\x00" + bytes(20),
    "psd": b"8BPS\x00\x01" + bytes(20),
    "fits": b"SIMPLE  =                    T" + bytes(50),
    "pcx": b"\x0a\x05\x01\x08" + bytes(128),
    "tiff": b"II*\x00\x08\x00\x00\x00",
    "avif": b"\x00\x00\x00\x1cftypavif" + bytes(20),
    "heic": b"\x00\x00\x00\x1cftypheic" + bytes(20),
}


@pytest.mark.parametrize("kind", OTHER)
def test_other_formats(kind: str) -> None:
    assert refusal(OTHER[kind]) == "unsupported_image_media_type"


def test_float_tiff_is_refused() -> None:
    encoded = factory.encode(Image.fromarray(np.ones((4, 4), np.float32)), "TIFF")
    assert refusal(encoded) == "unsupported_image_media_type"


SEEDS = [
    factory.encode(factory.gradient(24, 16)),
    factory.encode(factory.gradient(24, 16).quantize(8), transparency=0),
    factory.with_orientation(factory.gradient(24, 16), 6, "JPEG"),
    factory.encode(factory.gradient(24, 16), "WEBP"),
    factory.encode(factory.gradient(24, 16), "GIF"),
    factory.encode(factory.gradient(24, 16), "BMP"),
]


@settings(max_examples=300, deadline=timedelta(seconds=2))
@given(encoded=mutated(SEEDS, 4000))
def test_mutated_files_are_taken_or_refused(encoded: bytes) -> None:
    outcome = taken_or_refused(encoded)
    assert isinstance(outcome, str) or outcome.ndim == 3


def test_metadata_is_gone() -> None:
    image = decode_image(factory.with_orientation(factory.gradient(8, 8), 3, "PNG"))
    assert not image.info
    assert Image.open(io.BytesIO(factory.encode(image))).getexif() == {}
