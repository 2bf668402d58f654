"""Scenes to pixels, with a label for every patch (what covers it, in which colour) for the auxiliary loss."""

import random
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from tools.demo_model.foreign import draw_foreign
from tools.demo_model.lettering import fit, sample_font
from tools.demo_model.outlines import outline
from tools.demo_model.palette import COLOURS
from tools.demo_model.paper import textured, wear
from tools.demo_model.scene import SHAPES, Scene

PATCH = 8
SMALLEST = 7.5  # pixels
SMALL_PRINT = 0.3  # the share of texts
CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
CLASSES = ("paper", *SHAPES, *CHARACTERS, "foreign")
TINTS = ("none", *COLOURS)


class Drawing(NamedTuple):
    """pixels: (height, width, 3) uint8; labels: (patches high, patches wide, 2) uint8, class and colour."""

    pixels: np.ndarray
    labels: np.ndarray


def draw(scene: Scene, rng: random.Random, held_out: bool = False) -> Drawing:
    """The scene at its final size, drawn larger and shrunk, as an uploaded picture would be."""
    height, width = scene.grid
    scale = PATCH * rng.choice((1, 2, 2, 3, 3))
    size = (width * scale, height * scale)
    if scene.background is None:
        canvas = textured(size, scene.paper, rng.uniform(0.06, 0.22), rng)
    else:
        canvas = Image.new("RGB", size, scene.paper)
    mask = Image.new("RGB", size, (0, TINTS.index(scene.background or "none"), 0))
    if scene.kind == "foreign":
        draw_foreign(canvas, rng, held_out)
        mask.paste((CLASSES.index("foreign"), 0, 0), (0, 0, *size))
    draw_things(scene, canvas, mask, scale, rng)
    if scene.text:
        draw_text(scene, canvas, mask, rng, held_out)
    small = canvas.resize((width * PATCH, height * PATCH), Image.Resampling.BICUBIC)
    labels = np.asarray(mask.resize((width, height), Image.Resampling.NEAREST))[..., :2]
    scene.letter_width = letter_width(scene, labels)
    return Drawing(np.asarray(wear(small, rng)), labels)


def letter_width(scene: Scene, labels: np.ndarray) -> float:
    """Pixels from one character of the text to the next. labels: (patches high, patches wide, 2)."""
    covered = np.isin(labels[..., 0], [CLASSES.index(character) for character in scene.text]).any(0)
    return PATCH * covered.sum() / max(len(scene.text), 1)


def draw_things(scene: Scene, canvas: Image.Image, mask: Image.Image, scale: int, rng: random.Random) -> None:
    """The things, filled; in some pictures with a dark border, in some as thick outlines only."""
    pen, marker = ImageDraw.Draw(canvas), ImageDraw.Draw(mask)
    style = rng.choices(("filled", "bordered", "hollow"), (0.8, 0.1, 0.1))[0]
    for thing in scene.things:
        points = outline(thing, scale, rng)
        closed = [*points, *points[:2]]
        if style == "hollow":
            stroke = max(2, round(0.16 * thing.radius * scale))
            pen.line(closed, fill=thing.rgb, width=stroke, joint="curve")
        else:
            pen.polygon(points, fill=thing.rgb)
        if style == "bordered":
            pen.line(closed, fill=(20, 20, 20), width=max(1, scale // 8))
        marker.polygon(points, fill=(CLASSES.index(thing.shape), TINTS.index(thing.colour), 0))


def draw_text(
    scene: Scene, canvas: Image.Image, mask: Image.Image, rng: random.Random, held_out: bool
) -> None:
    """The text somewhere on the canvas, 45 to 95 % of the largest size that fits, or in small print, of
    which a character is at least `SMALLEST` wide in the end; sometimes turned a little.
    """
    width, height = canvas.size
    text = scene.text
    if scene.kind == "word":
        text = rng.choice((text.upper(), text.upper(), text.lower(), text.capitalize()))
    low, high = 0.45 if len(text) < 4 else 0.7, 0.95
    if rng.random() < SMALL_PRINT:
        low, high = max(0.15, len(text) * SMALLEST / (scene.grid[1] * PATCH)), low
    share = rng.uniform(low, high)
    font = fit(sample_font(rng, held_out), text, width * share, height * share)
    left, top, right, bottom = font.getbbox(text)
    x = rng.uniform(0, max(0, width - (right - left))) - left
    y = rng.uniform(0, max(0, height - (bottom - top))) - top
    stencil = Image.new("L", canvas.size)
    ImageDraw.Draw(stencil).text((x, y), text, font=font, fill=255)
    cells = Image.new("RGB", canvas.size)
    marker = ImageDraw.Draw(cells)
    for i, character in enumerate(text):
        begin, end = x + font.getlength(text[:i]), x + font.getlength(text[: i + 1])
        fill = (CLASSES.index(character.upper()), TINTS.index(scene.ink), 0)
        marker.rectangle((begin, y + top, end, y + bottom), fill=fill)
    if rng.random() < 0.3:
        turn = rng.uniform(-7, 7)
        stencil = stencil.rotate(turn, Image.Resampling.BILINEAR)
        cells = cells.rotate(turn)
    canvas.paste(scene.ink_rgb, (0, 0), stencil)
    mask.paste(cells, (0, 0), cells.getchannel("R").point(lambda value: 255 if value else 0))
