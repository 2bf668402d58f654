"""Pictures and sounds made on the spot, sound and broken, with known content. A few kilobytes each."""

import base64
import io
import struct
import zlib
from typing import Any

import numpy as np
import soundfile
from PIL import Image


def encode(image: Image.Image, format: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def data_url(encoded: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(encoded).decode()}"


def gradient(width: int, height: int) -> Image.Image:
    """Red rises to the right, green downwards; blue marks the top left quarter."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0] = np.linspace(0, 255, width).astype(np.uint8)[None, :]
    pixels[..., 1] = np.linspace(0, 255, height).astype(np.uint8)[:, None]
    pixels[: (height + 1) // 2, : (width + 1) // 2, 2] = 200
    return Image.fromarray(pixels)


def solid(color: str | tuple[int, ...], width: int = 64, height: int = 64, mode: str = "RGB") -> Image.Image:
    return Image.new(mode, (width, height), color)


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    """Doesn't compress: about three bytes a pixel as PNG."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))


def with_orientation(image: Image.Image, orientation: int, format: str) -> bytes:
    """The picture stored so that it is upright once `orientation` is applied."""
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = image.transpose(undo[orientation]) if orientation in undo else image
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = (
        {"lossless": True}
        if format == "WEBP"
        else {"quality": 100, "subsampling": 0}
        if format == "JPEG"
        else {}
    )
    return encode(stored, format, exif=exif, **options)


def png(
    width: int, height: int, depth: int, color_type: int, rows: bytes, *chunks: tuple[bytes, bytes]
) -> bytes:
    """A PNG from raw rows (each with its filter byte), as Pillow won't write some kinds."""
    header = struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, 0)
    all_chunks = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(name, data) for name, data in all_chunks)


def _png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def one_bit_png(width: int, height: int) -> bytes:
    """Tiny in bytes, huge in pixels."""
    row = bytes(1 + (width + 7) // 8)
    compressor = zlib.compressobj(9)
    body = b"".join(compressor.compress(row) for _ in range(height)) + compressor.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", body), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(name, data) for name, data in chunks)


def tone(seconds: float, rate: int = 16000, hertz: float = 440.0, channels: int = 1) -> np.ndarray:
    """float64 [frames, channels], the same in every channel."""
    wave = 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)
    return np.repeat(wave[:, None], channels, axis=1)


def sound(samples: np.ndarray, rate: int = 16000, format: str = "WAV", subtype: str | None = None) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate, format=format, subtype=subtype)
    return buffer.getvalue()
