"""What lies behind and over a drawing: plain or photo-like backgrounds, noise, shading, JPEG artefacts."""

import io
import random

import numpy as np
from PIL import Image, ImageFilter

from tools.demo_model.palette import RGB


def cloud(size: tuple[int, int], rng: random.Random, octaves: tuple[int, ...]) -> np.ndarray:
    """Smooth random colour, float array (height, width, 3) around 0, a sum of noise at several scales."""
    noise = np.random.default_rng(rng.randrange(2**32))
    total = np.zeros((size[1], size[0], 3), np.float32)
    for cells in octaves:
        small = noise.normal(0, 127, (cells, cells, 3)).clip(-127, 127) + 128
        grown = Image.fromarray(small.astype(np.uint8)).resize(size, Image.Resampling.BICUBIC)
        total += (np.asarray(grown, np.float32) - 128) / len(octaves) ** 0.5
    return total


def textured(size: tuple[int, int], base: RGB, strength: float, rng: random.Random) -> Image.Image:
    """A photo-like, blurred background around a base colour."""
    octaves = rng.choice(((3,), (2, 5), (3, 8, 20), (4, 12, 40), (2, 50)))
    pixels = np.asarray(base, np.float32) + strength * cloud(size, rng, octaves)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def wear(picture: Image.Image, rng: random.Random) -> Image.Image:
    """The picture after a camera and a few compressions: shading, blur, noise and JPEG, each only
    sometimes.
    """
    if rng.random() < 0.1:
        picture = picture.filter(ImageFilter.GaussianBlur(rng.uniform(0.3, 0.8)))
    if rng.random() < 0.4:
        pixels = np.asarray(picture, np.float32)
        noise = np.random.default_rng(rng.randrange(2**32))
        if rng.random() < 0.5:
            slope = np.linspace(rng.uniform(-14, 14), rng.uniform(-14, 14), pixels.shape[1], dtype=np.float32)
            pixels = pixels + slope[:, None]
        pixels = pixels + noise.normal(0, rng.uniform(1, 11), pixels.shape).astype(np.float32)
        picture = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    if rng.random() < 0.3:
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=rng.randrange(35, 95))
        picture = Image.open(buffer).convert("RGB")
    return picture
