"""What a drawn picture shows, before a pixel is set: the truth that every answer is read from.

Knows names, places and sizes in fractions of the picture; knows nothing of drawing.
"""

import random
from dataclasses import dataclass, field

from tools.demo_model.palette import COLOURS, RGB, distance, sample_colour

SHAPES = ("circle", "square", "triangle", "star", "heart", "cross", "rectangle")
GRIDS = ((14, 14), (14, 14), (12, 16), (16, 12), (10, 18), (18, 10), (12, 12))  # patches: height, width
LINED_UP = 0.4  # the share of trials for several shapes; some fail, so of pictures less


@dataclass
class Thing:
    """One shape: its name, its colour's name and value, its centre and radius in patches, its turn in
    degrees.
    """

    shape: str
    colour: str
    rgb: RGB
    x: float
    y: float
    radius: float
    turn: float


@dataclass
class Scene:
    """One picture. `kind` is shapes, number, word or foreign; `background` is a colour's name or None
    if mixed; `letter_width` is in pixels, known once the text is drawn.
    """

    kind: str
    grid: tuple[int, int]
    background: str | None
    paper: RGB
    things: list[Thing] = field(default_factory=list)
    text: str = ""
    ink: str = ""
    ink_rgb: RGB = (0, 0, 0)
    letter_width: float = 0.0


def sample_background(rng: random.Random) -> tuple[str | None, RGB]:
    """A plain named colour (mostly light), or an unnamed one to be textured."""
    if rng.random() < 0.3:
        return None, (rng.randrange(256), rng.randrange(256), rng.randrange(256))
    name = rng.choice(("white", "white", "white", "black", "grey", *COLOURS))
    rgb = (255, 255, 255) if name == "white" and rng.random() < 0.5 else sample_colour(name, rng)
    return name, rgb


def contrasting_colour(background: str | None, paper: RGB, rng: random.Random) -> tuple[str, RGB]:
    """A named colour that stands out from the paper."""
    while True:
        name = rng.choice(COLOURS)
        rgb = sample_colour(name, rng)
        if name != background and distance(rgb, paper) > 150:
            return name, rgb


def place(grid: tuple[int, int], radii: list[float], rng: random.Random) -> list[tuple[float, float]] | None:
    """Centres (x, y) at which circles of these radii neither touch nor leave the picture; None if
    none found.
    """
    height, width = grid
    centres: list[tuple[float, float]] = []
    for radius in radii:
        for _ in range(30):
            x, y = rng.uniform(radius, width - radius), rng.uniform(radius, height - radius)
            if all(
                (x - a) ** 2 + (y - b) ** 2 > (radius + r + 0.4) ** 2
                for (a, b), r in zip(centres, radii, strict=False)
            ):
                centres.append((x, y))
                break
        else:
            return None
    return centres


def line_up(
    grid: tuple[int, int], radii: list[float], rng: random.Random
) -> list[tuple[float, float]] | None:
    """Centres in one row, in one column or in several of both, as hands and programs like to place things;
    None where the circles do not fit.
    """
    count, (height, width) = len(radii), grid
    rows, columns = rng.choice([(r, count // r) for r in range(1, count + 1) if count % r == 0])
    pitch = 2 * max(radii) + 0.4
    spare = height - rows * pitch, width - columns * pitch
    if min(spare) < 0:
        return None
    tall, wide = pitch + rng.uniform(0, spare[0]) / rows, pitch + rng.uniform(0, spare[1]) / columns
    top, left = rng.uniform(0, height - rows * tall), rng.uniform(0, width - columns * wide)
    places = [(left + wide * (c + 0.5), top + tall * (r + 0.5)) for r in range(rows) for c in range(columns)]
    return [(x + rng.uniform(-0.1, 0.1), y + rng.uniform(-0.1, 0.1)) for x, y in rng.sample(places, count)]


def sample_places(
    grid: tuple[int, int], count: int, rng: random.Random
) -> tuple[list[float], list[tuple[float, float]]]:
    """Radii and centres of so many things: anywhere, or lined up, then mostly of one size."""
    largest = {1: 0.46, 2: 0.3, 3: 0.26, 4: 0.22, 5: 0.2, 6: 0.18}[count] * min(grid)
    smallest = max(1.35, 0.1 * min(grid))
    while True:
        lined = count > 1 and rng.random() < LINED_UP
        radii = [rng.uniform(smallest, max(largest, smallest + 0.2)) for _ in range(count)]
        if lined and rng.random() < 0.6:
            radii = radii[:1] * count
        if centres := (line_up if lined else place)(grid, radii, rng):
            return radii, centres


def sample_shapes(rng: random.Random, count: int | None = None) -> Scene:
    """A picture of one to six shapes that do not touch."""
    grid = rng.choice(GRIDS)
    background, paper = sample_background(rng)
    count = count or rng.choices((1, 2, 3, 4, 5, 6), (30, 25, 18, 12, 8, 7))[0]
    few_names = rng.random() < 0.35  # repeated shapes and colours make counting questions interesting
    shapes = rng.sample(SHAPES, 2) if few_names else SHAPES
    radii, centres = sample_places(grid, count, rng)
    inks = [contrasting_colour(background, paper, rng) for _ in range(2 if few_names else count)]
    things = []
    for (x, y), radius in zip(centres, radii, strict=True):
        name, rgb = rng.choice(inks) if few_names else inks[len(things)]
        things.append(Thing(rng.choice(shapes), name, rgb, x, y, radius, rng.uniform(-12, 12)))
    return Scene("shapes", grid, background, paper, things)


def sample_text(rng: random.Random, kind: str, text: str) -> Scene:
    """A picture of one printed number or word; wide pictures are likelier for long texts."""
    grid = rng.choice(GRIDS + ((10, 18), (8, 22)) * (1 if len(text) < 4 else 4))
    background, paper = sample_background(rng)
    ink, ink_rgb = contrasting_colour(background, paper, rng)
    return Scene(kind, grid, background, paper, [], text, ink, ink_rgb)


def sample_number(rng: random.Random) -> str:
    """A number of one to four digits, as digits."""
    return "".join(rng.choice("0123456789") for _ in range(rng.choice((1, 1, 2, 2, 3, 4))))
