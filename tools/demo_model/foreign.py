"""Pictures of things the model has no name for: clip art, symbols, foreign scripts, blobs, scribbles,
landscapes, textures.
"""

import random
import re
from functools import lru_cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from tools.demo_model.lettering import load
from tools.demo_model.outlines import nameless_outline, place_outline
from tools.demo_model.paper import textured

SYMBOLS = Path("/usr/share/fonts/truetype/ancient-scripts/Symbola_hint.ttf")
SYMBOL_RANGES = (
    (0x1F300, 0x1F5FF),
    (0x1F600, 0x1F64F),
    (0x1F680, 0x1F6C0),
    (0x2654, 0x265F),
    (0x2600, 0x2604),
)
SCRIPTS = {
    "Arabic": (0x0627, 0x064A),
    "Devanagari": (0x0905, 0x0939),
    "Bengali": (0x0985, 0x09B9),
    "Thai": (0x0E01, 0x0E2E),
    "Georgian": (0x10D0, 0x10F0),
    "Armenian": (0x0561, 0x0586),
    "Hebrew": (0x05D0, 0x05EA),
    "Ethiopic": (0x1200, 0x1240),
}
CLIP_ART = Path("/usr/share/openclipart/png")  # Debian's openclipart-png, in the public domain
CLIP_ART_FOLDERS = (
    "animals", "people", "food", "plants", "buildings", "transportation", "electronics", "tools",
    "containers", "education", "recreation", "office", "geography", "science",
)  # fmt: skip
LARGEST_CLIP_ART = 60_000  # bytes: some are of a hundred megapixels
NAMEABLE = re.compile(
    "star|heart|circle|square|cross|triangle|rect|round|ball|box|card|sign|number|letter|text|flag"
)
LIKE_NAMED_SHAPES = set(range(0x1F48B, 0x1F4A0)) | set(range(0x1F534, 0x1F53E)) | set(range(0x1F380, 0x1F382))


@lru_cache
def script_font(name: str) -> Path:
    return next(iter(sorted(Path("/usr/share/fonts/truetype/noto").glob(f"NotoSans{name}-Regular.ttf"))))


def random_colour(rng: random.Random) -> tuple[int, int, int]:
    return rng.randrange(256), rng.randrange(256), rng.randrange(256)


def draw_symbols(canvas: Image.Image, rng: random.Random) -> None:
    """One to three pictographs, or a line of a script that is not Latin."""
    pen = ImageDraw.Draw(canvas)
    width, height = canvas.size
    if rng.random() < 0.3:
        name = rng.choice(sorted(SCRIPTS))
        text = "".join(chr(rng.randint(*SCRIPTS[name])) for _ in range(rng.randrange(1, 5)))
        font, count = script_font(name), 1
    else:
        text, font, count = "", SYMBOLS, rng.choice((1, 1, 2, 3))
    for _ in range(count):
        if font == SYMBOLS:
            code = rng.randint(*rng.choice(SYMBOL_RANGES))
            text = chr(code if code not in LIKE_NAMED_SHAPES else 0x1F40C)
        size = int(min(width, height) * rng.uniform(0.35, 0.95) / (count**0.5 * max(1, len(text) * 0.6)))
        face: ImageFont.FreeTypeFont = load(font, max(8, size))
        spot = (rng.uniform(0.3, 0.7) * width, rng.uniform(0.3, 0.7) * height)
        pen.text(spot, text, font=face, fill=random_colour(rng), anchor="mm")


@lru_cache
def clip_art(held_out: bool) -> tuple[Path, ...]:
    """Clip art that shows nothing with a name here; every eighth is kept for the evaluation."""
    found = [path for folder in CLIP_ART_FOLDERS for path in (CLIP_ART / folder).rglob("*.png")]
    foreign = sorted(path for path in found if not NAMEABLE.search(str(path.relative_to(CLIP_ART)).lower()))
    foreign = [path for path in foreign if path.stat().st_size < LARGEST_CLIP_ART]
    return tuple(path for i, path in enumerate(foreign) if (i % 8 == 0) == held_out)


def draw_clip_art(canvas: Image.Image, rng: random.Random, held_out: bool) -> None:
    """One to three clip arts, or so large a one that it leaves the picture, as photographed things do."""
    side = min(canvas.size)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        with Image.open(rng.choice(clip_art(held_out))) as opened:
            art = opened.convert("RGBA")
        size = side * rng.choice((rng.uniform(0.4, 1.0), rng.uniform(1.0, 2.5)))
        art = art.resize([max(1, int(length * size / max(art.size))) for length in art.size])
        spot = [int(rng.uniform(0.2, 0.8) * c - 0.5 * a) for c, a in zip(canvas.size, art.size, strict=True)]
        canvas.paste(art, (spot[0], spot[1]), art)


def draw_blobs(canvas: Image.Image, rng: random.Random) -> None:
    pen = ImageDraw.Draw(canvas)
    width, height = canvas.size
    for _ in range(rng.choice((1, 1, 2, 4, 9))):
        radius = rng.uniform(0.1, 0.5) * min(width, height)
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        points = place_outline(nameless_outline(rng), x, y, radius, rng.uniform(0, 360), 1)
        pen.polygon(points, fill=random_colour(rng))


def draw_scribble(canvas: Image.Image, rng: random.Random) -> None:
    pen = ImageDraw.Draw(canvas)
    width, height = canvas.size
    for _ in range(rng.randrange(2, 9)):
        points = [(rng.uniform(0, width), rng.uniform(0, height)) for _ in range(rng.randrange(2, 7))]
        pen.line(points, fill=random_colour(rng), width=rng.randrange(1, max(2, width // 24)), joint="curve")


def draw_landscape(canvas: Image.Image, rng: random.Random) -> None:
    """Sky over rolling ground over ground, each with a texture of its own."""
    width, height = canvas.size
    for horizon in sorted(rng.uniform(0.15, 0.9) for _ in range(rng.randrange(1, 4))):
        ground = textured(canvas.size, random_colour(rng), rng.uniform(0.1, 0.5), rng)
        stencil = Image.new("L", canvas.size)
        ridge = [(width * i / 8, height * (horizon + rng.uniform(-0.1, 0.1))) for i in range(9)]
        ImageDraw.Draw(stencil).polygon([(0, height), *ridge, (width, height)], fill=255)
        canvas.paste(ground, (0, 0), stencil)


def draw_foreign(canvas: Image.Image, rng: random.Random, held_out: bool = False) -> None:
    """Draw onto the canvas something that no answer but "I cannot tell." fits."""
    if rng.random() < 0.4:
        if rng.random() < 0.4:
            draw_landscape(canvas, rng)
        draw_clip_art(canvas, rng, held_out)
        return
    pick = rng.random()
    if pick < 0.35:
        draw_symbols(canvas, rng)
    elif pick < 0.5:
        draw_blobs(canvas, rng)
    elif pick < 0.62:
        draw_scribble(canvas, rng)
    elif pick < 0.85:
        draw_landscape(canvas, rng)
    else:
        canvas.paste(textured(canvas.size, random_colour(rng), rng.uniform(0.5, 1.0), rng))
    if rng.random() < 0.5:
        draw_blobs(canvas, rng) if rng.random() < 0.5 else draw_scribble(canvas, rng)
