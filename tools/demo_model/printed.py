"""A line of text on a canvas: where, how large, in which font, and how it is set."""

import math
import random
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFilter

from tools.demo_model.lettering import fit, sample_font

SMALLEST = 7.5  # pixels
SMALL_PRINT = 0.3  # the share of texts
Cell = tuple[str, tuple[float, float, float, float]]


class Line(NamedTuple):
    """stencil: what the ink covers, 0 to 255; cells: each character with its left, top, right, bottom."""

    stencil: Image.Image
    cells: list[Cell]


class Bend(NamedTuple):
    """A turn in radians, a slant, and what width and height are multiplied with."""

    turn: float = 0.0
    slant: float = 0.0
    width: float = 1.0
    height: float = 1.0


def sample_share(text: str, width: int, rng: random.Random) -> float:
    """How much of the largest size that fits the text takes: 45 to 95 %, or small print, of which a character
    is at least `SMALLEST` wide in a picture of that width.
    """
    low, high = 0.45 if len(text) < 4 else 0.7, 0.95
    if rng.random() < SMALL_PRINT:
        low, high = max(0.15, len(text) * SMALLEST / width), low
    return rng.uniform(low, high)


def set_line(text: str, size: tuple[int, int], share: float, rng: random.Random, held_out: bool) -> Line:
    """The text somewhere on a canvas of that size. Fonts of the training are varied further: spaced out,
    fattened, thinned.
    """
    spaced = not held_out and rng.random() < 0.25
    tracking = rng.uniform(-0.02, 0.2) if spaced else 0.0
    font_file: Path = sample_font(rng, held_out)
    room = 1 / (1 + max(tracking, 0) * (len(text) - 1) / max(len(text), 1))
    font = fit(font_file, text, size[0] * share * room, size[1] * share)
    left, top, right, bottom = font.getbbox(text)
    step = tracking * (right - left) / len(text)
    width = right - left + step * (len(text) - 1)
    x = rng.uniform(0, max(0, size[0] - width)) - left
    y = rng.uniform(0, max(0, size[1] - (bottom - top))) - top
    stencil = Image.new("L", size)
    pen = ImageDraw.Draw(stencil)
    cells = []
    for i, character in enumerate(text):
        begin, end = (x + font.getlength(text[: i + n]) + i * step for n in (0, 1))
        if step:
            pen.text((begin, y), character, font=font, fill=255)
        cells.append((character, (begin, y + top, end, y + bottom)))
    if not step:
        pen.text((x, y), text, font=font, fill=255)
    return Line(stencil if held_out else pressed(stencil, bottom - top, rng), cells)


def pressed(stencil: Image.Image, height: float, rng: random.Random) -> Image.Image:
    """The ink as it is, or fatter or thinner by a little. height: of the letters, in pixels."""
    pick = rng.random()
    if height < 40 or pick > 0.2:
        return stencil
    return stencil.filter(ImageFilter.MaxFilter(3) if pick < 0.1 else ImageFilter.MinFilter(3))


def sample_bend(rng: random.Random, held_out: bool) -> Bend:
    turn = math.radians(rng.uniform(-7, 7)) if rng.random() < 0.3 else 0.0
    if held_out or rng.random() > 0.3:
        return Bend(turn)
    return Bend(turn, rng.uniform(-0.25, 0.25), rng.uniform(0.75, 1), rng.uniform(0.7, 1))


def bent(image: Image.Image, bend: Bend) -> Image.Image:
    """The image turned, slanted and squeezed around its middle."""
    if bend == Bend():
        return image
    x, y = image.width / 2, image.height / 2
    sin, cos = math.sin(bend.turn), math.cos(bend.turn)
    a, b = cos / bend.width, sin / bend.width + bend.slant
    d, e = -sin / bend.height, cos / bend.height
    smooth = Image.Resampling.BILINEAR if image.mode == "L" else Image.Resampling.NEAREST
    turned = (a, b, x - a * x - b * y, d, e, y - d * x - e * y)
    return image.transform(image.size, Image.Transform.AFFINE, turned, smooth)
