"""Encoded pictures to canonical ones: what the model sees is what people see.

RGB, 8 bits, upright, sRGB, on white:

- The format is told from the bytes; labels are never believed. PNG, JPEG, WebP, GIF and BMP are taken (JPEG
  with Huffman codes, BMP without run lengths, as everyone writes them).
- Size is checked from the header, and the file's parts are counted, before any pixel is decoded.
- EXIF orientation is applied; transparency is composited on white; 16 bits are scaled.
- Embedded colour profiles are converted to sRGB; one that can't be read is ignored.
- Of an animation the first frame is taken.
- Cut-off files are refused. (A PNG that lacks no more than its end chunk is not cut off in this sense.)
"""

import io
import warnings
from typing import Any, NamedTuple

from PIL import Image, ImageCms

from models.processing.base import MediaError
from server.media.colour_profile import without_programs
from server.media.image_parts import check_parts
from server.media.unreadable import damaged, too_large

# The limit below is enforced from every header; Pillow's own would only warn, and far too late.
Image.MAX_IMAGE_PIXELS = None
# What is odd about a file concerns nobody but its sender, and one file can be odd in thousands of ways.
warnings.filterwarnings("ignore", module=r"PIL\.")

BYTES_PER_PIXEL = 4
"""How Pillow stores RGB."""
MOST_BYTES_PER_PIXEL = 18
"""While a picture is decoded, whatever its format."""

_ORIENTATION = 0x0112
_EIGHT_OF_SIXTEEN = [(value * 255 + 32767) // 65535 for value in range(1 << 16)]
_SRGB = ImageCms.createProfile("sRGB")
_TAKEN = "PNG, JPEG, WebP, GIF or BMP"


class Header(NamedTuple):
    """width, height: pixels as stored, before any rotation."""

    format: str
    width: int
    height: int

    @property
    def decoding_bytes(self) -> int:
        """What `decode_image` takes at its peak, all copies together, as measured. The picture itself takes
        BYTES_PER_PIXEL of it. A WebP's decoder has two canvases of its own."""
        return self.width * self.height * (MOST_BYTES_PER_PIXEL if self.format == "WEBP" else 14)


def read_header(encoded: bytes, max_pixels: int) -> Header:
    """The picture's format and size. MediaError for anything that will not be decoded."""
    check_parts(encoded, _sniff(encoded))
    claimed = _webp_size(encoded[:32])
    if claimed is not None:  # Pillow makes room for the whole canvas when it opens such a file
        _check_size(*claimed, max_pixels)
    with _opened(encoded) as image:
        header = Header(image.format or "", *image.size)
    _check_size(header.width, header.height, max_pixels)
    return header


def _check_size(width: int, height: int, max_pixels: int) -> None:
    if width * height > max_pixels:
        message = f"The image is too large: {width}x{height} pixels, at most {max_pixels} are taken."
        raise MediaError(message, "image_too_large")
    if width < 1 or height < 1:
        raise MediaError("The image has no pixels.", "image_too_small")


def _webp_size(head: bytes) -> tuple[int, int] | None:
    """Width and height of a WebP canvas, None for other files."""
    if head[:4] != b"RIFF" or head[8:12] != b"WEBP" or len(head) < 30:
        return None
    if head[12:16] == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if head[12:16] == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if head[12:16] == b"VP8 ":
        return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF
    return None


def decode_image(encoded: bytes) -> Image.Image:
    """The canonical picture. Call `read_header` first: it holds the limits.

    Takes `Header.decoding_bytes` at its peak: each step lets go of the one before.
    """
    image: Image.Image = _opened(encoded)
    try:
        image.load()
        orientation = _orientation(image)
        for step in (_eight_bits, _in_srgb, _on_white):
            image = step(image)
        return _upright(image, orientation)
    except MemoryError:
        raise too_large("image") from None
    except Exception:  # decoders raise what they like on hostile input
        raise damaged("image") from None


def _opened(encoded: bytes) -> Image.Image:
    kind = _sniff(encoded)
    try:
        return Image.open(io.BytesIO(encoded), formats=(kind,))
    except MemoryError:
        raise too_large("image") from None
    except Exception:
        raise damaged("image") from None


def _sniff(encoded: bytes) -> str:
    if not encoded:
        raise MediaError("The image is empty.", "empty_image_file")
    head = encoded[:512]
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    if head.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WEBP"
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return "GIF"
    if head[:2] == b"BM" and head[6:10] == bytes(4):
        return "BMP"
    if name := _known_but_not_taken(head):
        raise MediaError(f"{name} images are not supported; send {_TAKEN}.", "unsupported_image_media_type")
    raise MediaError(f"The data is not an image in a known format; send {_TAKEN}.", "image_parse_error")


_OTHER_FORMATS = {
    b"%!PS": "EPS",
    b"\xc5\xd0\xd3\xc6": "EPS",
    b"\x00\x00\x01\x00": "ICO",
    b"\x00\x00\x02\x00": "CUR",
    b"8BPS": "PSD",
    b"SIMPLE  =": "FITS",
    b"II*\x00": "TIFF",
    b"MM\x00*": "TIFF",
    b"II+\x00": "TIFF",
    b"\x00\x00\x00\x0cjP  ": "JPEG 2000",
    b"\xffO\xffQ": "JPEG 2000",
    b"\xff\x0a": "JPEG XL",
    b"\x00\x00\x00\x0cJXL ": "JPEG XL",
    b"qoif": "QOI",
    b"DDS ": "DDS",
    b"icns": "ICNS",
}


def _known_but_not_taken(head: bytes) -> str | None:
    for magic, name in _OTHER_FORMATS.items():
        if head.startswith(magic):
            return name
    if head[4:8] == b"ftyp":
        return "AVIF" if head[8:12] in (b"avif", b"avis") else "HEIF"
    if head[:1] == b"\x0a" and head[1:3] in (b"\x00\x01", b"\x02\x01", b"\x03\x01", b"\x05\x01"):
        return "PCX"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return "SVG" if text.startswith((b"<svg", b"<?xml")) or (text[:2] == b"<!" and b"<svg" in text) else None


def _eight_bits(image: Image.Image) -> Image.Image:
    """16-bit grey scaled, not clipped, to 8; its transparent value, if any, made an alpha channel."""
    if not image.mode.startswith("I") and image.mode != "F":
        return image
    values = image.convert("I")  # the one kind that Pillow looks up in a table of so many
    grey = values.point(_EIGHT_OF_SIXTEEN, "L")
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        opaque = values.point([255 * (value != transparent) for value in range(1 << 16)], "L")
        grey = Image.merge("LA", (grey, opaque))
    if profile := image.info.get("icc_profile"):
        grey.info["icc_profile"] = profile
    return grey


def _in_srgb(image: Image.Image) -> Image.Image:
    profile = image.info.get("icc_profile")
    if not profile:
        return image
    if image.mode in ("P", "PA") or (image.mode in ("RGB", "L", "1") and "transparency" in image.info):
        image = image.convert("RGBA")
    alpha = image.getchannel("A") if image.mode in ("RGBA", "LA") else None
    base = image.convert({"RGBA": "RGB", "LA": "L", "1": "L"}.get(image.mode, image.mode))
    try:
        source: Any = ImageCms.getOpenProfile(io.BytesIO(without_programs(profile)))
        space = source.profile.xcolor_space.strip()
        if space == "GRAY" and base.mode == "RGB":
            return image
        if space == "RGB" and base.mode == "L":
            base = base.convert("RGB")
        if base.mode == "RGB":  # a copy, whichever mode the picture had
            ImageCms.profileToProfile(base, source, _SRGB, inPlace=True)
        else:
            base = ImageCms.profileToProfile(base, source, _SRGB, outputMode="RGB")
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError, AttributeError):
        return image
    assert base is not None
    if alpha is not None:
        base.putalpha(alpha)
    return base


def _on_white(image: Image.Image) -> Image.Image:
    if not image.has_transparency_data:
        return image.convert("RGB")  # in any case: the file's own object holds more than pixels
    if image.mode != "RGBA":
        image = image.convert("RGBA")
    background = Image.new("RGB", image.size, "white")
    background.paste(image, mask=image)
    return background


def _orientation(image: Image.Image) -> int:
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # damaged metadata does not make the pixels unreadable
        return 1
    return value if value in range(1, 9) else 1


_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def _upright(image: Image.Image, orientation: int) -> Image.Image:
    turned = image.transpose(_TURNS[orientation]) if orientation in _TURNS else image
    turned.info = {}
    return turned
