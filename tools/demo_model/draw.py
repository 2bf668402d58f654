"""Scenes to pixels, with a label for every patch (what covers it, in which colour) for the auxiliary loss."""

import random
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from tools.demo_model.foreign import draw_foreign
from tools.demo_model.outlines import outline
from tools.demo_model.palette import COLOURS
from tools.demo_model.paper import textured, wear
from tools.demo_model.printed import bent, sample_bend, sample_share, set_line
from tools.demo_model.scene import SHAPES, Scene

PATCH = 8
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
    text = scene.text
    if scene.kind == "word":
        text = rng.choice((text.upper(), text.upper(), text.lower(), text.capitalize()))
    share = sample_share(text, scene.grid[1] * PATCH, rng)
    line = set_line(text, canvas.size, share, rng, held_out)
    cells = Image.new("RGB", canvas.size)
    marker = ImageDraw.Draw(cells)
    for character, box in line.cells:
        marker.rectangle(box, fill=(CLASSES.index(character.upper()), TINTS.index(scene.ink), 0))
    bend = sample_bend(rng, held_out)
    stencil, cells = bent(line.stencil, bend), bent(cells, bend)
    canvas.paste(scene.ink_rgb, (0, 0), stencil)
    mask.paste(cells, (0, 0), cells.getchannel("R").point(lambda value: 255 if value else 0))
