"""Where in a picture the words of a conversation point: what the losses of `pointers` ask for.

Computed from the scene. A word that names one thing of it points at that thing; the word before the next
thing of a caption, or before the next character of a text, looks at what is to be said next.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from tools.demo_model.ask_shapes import reading_order
from tools.demo_model.draw import CLASSES
from tools.demo_model.palette import COLOURS
from tools.demo_model.scene import SHAPES, Scene, Thing
from tools.demo_model.tokens import encode
from tools.demo_model.wording import plural

NOWHERE = -1
SPELT = ("number", "word")
SPELLS_IT = ("The number is ", "The word is ", "It says ", "I see ", "The picture shows ")
Spot = tuple[int, int]


class Aim(NamedTuple):
    """What one token is asked for, `NOWHERE` where nothing is asked.

    row, column: its own place, in merged tokens, if it is a picture's; named_*: of the only thing that the
    words up to it name, and how many things they name; next_*: of what the token after it says.
    """

    row: int = NOWHERE
    column: int = NOWHERE
    named_row: int = NOWHERE
    named_column: int = NOWHERE
    named_shape: int = NOWHERE
    named_colour: int = NOWHERE
    named_count: int = NOWHERE
    next_row: int = NOWHERE
    next_column: int = NOWHERE


@cache
def names() -> dict[int, str]:
    """The tokens that name shapes (one or several), colours, or any shape."""
    words = {name: name for name in (*SHAPES, *COLOURS)} | {plural(name): name for name in SHAPES}
    words |= dict.fromkeys(("shape", "shapes", "object", "objects"), "any")
    return {encode(f" {word}")[0]: name for word, name in words.items()}


def spot(thing: Thing) -> Spot:
    return int(thing.y / 2), int(thing.x / 2)


def character_spots(grid: tuple[int, int], covered: np.ndarray, text: str) -> list[Spot]:
    """Where the characters of a line stand. covered: for each patch, in the order of `to_patches`, the class
    of what covers it.

    A character stands in the middle of its patches that are about where it would be if all were of one
    width; exactly there if it has none.
    """
    classes = [CLASSES.index(character) for character in text]
    covered = covered[: grid[0] * grid[1]]
    (patch,) = np.nonzero(np.isin(covered, classes))
    if not len(patch):
        return []
    group, within = patch // 4, patch % 4
    rows = 2 * (group // (grid[1] // 2)) + within // 2 + 0.5
    columns = 2 * (group % (grid[1] // 2)) + within % 2 + 0.5
    left, width = columns.min() - 0.5, (columns.max() - columns.min() + 1) / len(text)
    found = []
    for i, kind in enumerate(classes):
        x, y = left + (i + 0.5) * width, rows.mean()
        if (own := (covered[patch] == kind) & (abs(columns - x) < max(width, 1))).any():
            x, y = columns[own].mean(), rows[own].mean()
        found.append((int(y / 2), int(x / 2)))
    return found


def matching(scene: Scene, colour: str | None, shape: str | None) -> list[Thing]:
    shapes = (None, "any", "")
    return [t for t in scene.things if colour in (None, t.colour) and (shape in shapes or shape == t.shape)]


def aim_at(scene: Scene, colour: str | None, shape: str | None) -> Aim:
    """The aim of the last word of a name. A name that fits nothing points at the one thing of its shape."""
    found = matching(scene, colour, shape)
    count = len(found)
    if not found and shape and colour:
        found = matching(scene, None, shape)
    if len(found) != 1:
        return Aim(named_count=count)
    thing, (row, column) = found[0], spot(found[0])
    return Aim(
        named_row=row,
        named_column=column,
        named_shape=SHAPES.index(thing.shape),
        named_colour=COLOURS.index(thing.colour),
        named_count=count,
    )


def named_aims(ids: Sequence[int], scene: Scene) -> list[Aim]:
    found, colour = [], None
    for token in ids:
        name = names().get(token)
        if name in COLOURS:
            colour = name
            found.append(aim_at(scene, colour, None))
        else:
            found.append(aim_at(scene, colour, name) if name else Aim())
            colour = None
    return found


def said_in_order(ids: Sequence[int], scene: Scene, text: str, characters: list[Spot]) -> dict[int, Spot]:
    """For an answer that tells all things, or all characters, in order: the index of each one's first
    token.
    """
    if scene.kind in SPELT:
        begin = next((i for i in range(len(ids)) if starts_with(ids[i:], scene.text)), None)
        if begin is None or not text.startswith(SPELLS_IT):
            return {}
        return {begin + i: spot for i, spot in enumerate(characters)}
    told = [(i, names()[token]) for i, token in enumerate(ids) if names().get(token) in SHAPES]
    things = reading_order(scene)
    if not things or [shape for _, shape in told] != [t.shape for t in things]:
        return {}
    has_colour = [names().get(ids[i - 1]) in COLOURS for i, _ in told]
    return {i - has: spot(t) for (i, _), has, t in zip(told, has_colour, things, strict=True)}


def starts_with(ids: Sequence[int], text: str) -> bool:
    spelt = [encode(character)[0] for character in text]
    return list(ids[: len(spelt)]) == spelt


def aims(text: str, scene: Scene, characters: list[Spot]) -> list[Aim]:
    """The aims of a question's or an answer's tokens. characters: where those of a printed text stand."""
    ids = encode(text)
    found = named_aims(ids, scene) if scene.kind == "shapes" else [Aim()] * len(ids)
    for i, (row, column) in said_in_order(ids, scene, text, characters).items():
        if i:
            found[i - 1] = found[i - 1]._replace(next_row=row, next_column=column)
    return found
