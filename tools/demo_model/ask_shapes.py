"""Questions about a picture of shapes."""

import itertools
import random
from collections import Counter

from tools.demo_model.palette import COLOURS
from tools.demo_model.scene import SHAPES, Scene, Thing
from tools.demo_model.wording import (
    BACKGROUND,
    CAPTION,
    COUNT,
    NUMBERS,
    QA,
    SHAPE,
    SHAPE_LIST,
    a,
    background_answer,
    count_sentence,
    listed,
    on_background,
    plural,
)


def full_name(thing: Thing) -> str:
    return f"{thing.colour} {thing.shape}"


def reading_order(scene: Scene) -> list[Thing] | None:
    """The things column by column from the left, each column from the top; None where whether two share a
    column is a matter of taste.
    """
    things = sorted(scene.things, key=lambda t: t.x)
    columns = [things[:1]]
    for left, right in itertools.pairwise(things):
        gap = (right.x - left.x) / scene.grid[1]
        if 0.035 < gap < 0.065:
            return None
        if gap > 0.05:
            columns.append([])
        columns[-1].append(right)
    return [thing for column in columns for thing in sorted(column, key=lambda t: t.y)]


def furthest(scene: Scene, side: str) -> Thing | None:
    """The thing that is furthest to the left or right, if it is so by far."""
    nearest, *others = sorted(scene.things, key=lambda t: t.x, reverse=side == "right")
    return nearest if others and abs(nearest.x - others[0].x) > 0.06 * scene.grid[1] else None


def place_name(scene: Scene, thing: Thing) -> str | None:
    """One of nine places, or None near the borders between them."""

    def third(share: float, names: tuple[str, str, str]) -> str | None:
        for name, low, high in zip(names, (0, 0.42, 0.68), (0.32, 0.58, 1), strict=True):
            if low <= share <= high:
                return name
        return None

    row = third(thing.y / scene.grid[0], ("top", "middle", "bottom"))
    column = third(thing.x / scene.grid[1], ("left", "middle", "right"))
    if row is None or column is None:
        return None
    if row == column:
        return "in the middle"
    return f"at the {' '.join(part for part in (row, column) if part != 'middle')}"


def ask_counts(scene: Scene, rng: random.Random) -> list[QA]:
    shapes = Counter(t.shape for t in scene.things)
    colours = Counter(t.colour for t in scene.things)
    shape = rng.choice(sorted(shapes) if rng.random() < 0.75 else SHAPES)
    colour = rng.choice(sorted(colours) if rng.random() < 0.75 else COLOURS)
    return [
        QA("count", rng.choice(COUNT), count_sentence(len(scene.things), "shape")),
        QA("count", f"How many {plural(shape)} are there?", count_sentence(shapes[shape], shape)),
        QA(
            "count",
            f"How many {colour} shapes are there?",
            count_sentence(colours[colour], f"{colour} shape"),
        ),
    ]


def ask_colours(scene: Scene, rng: random.Random) -> list[QA]:
    found = []
    thing = rng.choice(scene.things)
    same = [t.colour for t in scene.things if t.shape == thing.shape]
    question = rng.choice(
        ("What colour is the {}?", "Which colour is the {}?", "What is the colour of the {}?")
    )
    if len(same) == 1:
        found.append(QA("colour", question.format(thing.shape), f"The {thing.shape} is {thing.colour}."))
    elif len(set(same)) == 1:
        shapes = plural(thing.shape)
        found.append(QA("colour", f"What colour are the {shapes}?", f"The {shapes} are {thing.colour}."))
    if len(scene.things) == 1:
        asked = rng.choice(("What colour is it?", "What colour is the shape?", "What colour is the object?"))
        found.append(QA("colour", asked, f"The {thing.shape} is {thing.colour}."))
    if [t.colour for t in scene.things].count(thing.colour) == 1:
        asked = rng.choice((f"What shape is {thing.colour}?", f"What is the {thing.colour} shape?"))
        found.append(QA("shape", asked, f"The {thing.colour} shape is {a(thing.shape)}."))
    absent = sorted(set(SHAPES) - {t.shape for t in scene.things})
    if rng.random() < 0.25:
        name = rng.choice(absent)
        found.append(QA("absent", question.format(name), f"There is no {name} in the picture."))
    return found


def wrong_name(scene: Scene, thing: Thing, rng: random.Random) -> str:
    """A colour and a shape of which no thing has both, though mostly each is in the picture."""
    names = {full_name(t) for t in scene.things}
    while True:
        other = rng.choice(scene.things)
        colour = rng.choice((thing.colour, other.colour, rng.choice(COLOURS)))
        shape = rng.choice((thing.shape, other.shape, rng.choice(SHAPES)))
        if f"{colour} {shape}" not in names:
            return f"{colour} {shape}"


def ask_yes_no(scene: Scene, rng: random.Random) -> list[QA]:
    """Questions of which half could be answered with yes, whatever the picture shows.

    Where a property is asked for, the answer is the property, not yes or no: a network this small does not
    learn to compare before it has spoken.
    """

    def is_there(name: str) -> str:
        return rng.choice(("Is there {}?", "Is there {} in the picture?", "Do you see {}?")).format(a(name))

    def there(name: str, yes: bool) -> str:
        return f"Yes, there is {a(name)}." if yes else f"No, there is no {name}."

    thing = rng.choice(scene.things)
    shapes = [t.shape for t in scene.things]
    absent = sorted(set(SHAPES) - set(shapes))
    shaped = not absent or rng.random() < 0.5
    shape = thing.shape if shaped else rng.choice(absent)
    found = [QA("yes/no", is_there(shape), there(shape, shaped))]
    named = rng.random() < 0.5
    name = full_name(thing) if named else wrong_name(scene, thing, rng)
    same = [t for t in scene.things if name.endswith(t.shape)]
    alone = len(same) == 1
    answer = f"The {same[0].shape} is {same[0].colour}." if alone else there(name, named)
    found.append(QA("yes/no", is_there(name), answer))
    if shapes.count(thing.shape) == 1:
        others = {t.colour for t in scene.things} - {thing.colour}
        anything = set(COLOURS) - {thing.colour}
        wrong = rng.choice(sorted(others if others and rng.random() < 0.5 else anything))
        colour = thing.colour if rng.random() < 0.5 else wrong
        answer = f"The {thing.shape} is {thing.colour}."
        found.append(QA("yes/no", f"Is the {thing.shape} {colour}?", answer))
    return found


SIDES = {"to the left of": ("x", -1), "to the right of": ("x", 1), "above": ("y", -1), "below": ("y", 1)}


def ask_neighbour(scene: Scene, one: Thing, rng: random.Random) -> list[QA]:
    """What is on one side of a thing, if it is clear which things are and there is at most one."""
    side = rng.choice(list(SIDES))
    axis, sign = SIDES[side]
    gaps = {id(t): sign * (getattr(t, axis) - getattr(one, axis)) / max(scene.grid) for t in scene.things}
    beside = [t for t in scene.things if gaps[id(t)] > 0.12]
    if len(beside) > 1 or any(0.05 < gap <= 0.12 for gap in gaps.values()):
        return []
    asked = rng.choice(("What is {} the {}?", "Which shape is {} the {}?")).format(side, one.shape)
    answer = f"The {full_name(beside[0])} is" if beside else "There is nothing"
    return [QA("neighbour", asked, f"{answer} {side} the {one.shape}.")]


def ask_places(scene: Scene, rng: random.Random) -> list[QA]:
    found = []
    unique = [t for t in scene.things if [s.shape for s in scene.things].count(t.shape) == 1]
    if unique and (place := place_name(scene, thing := rng.choice(unique))):
        found.append(QA("place", f"Where is the {thing.shape}?", f"The {thing.shape} is {place}."))
    if unique and len(scene.things) > 1:
        found += ask_neighbour(scene, rng.choice(unique), rng)
    if len(unique) >= 2:
        one, other = rng.sample(unique, 2)
        axis, names = rng.choice((("x", ("to the left of", "to the right of")), ("y", ("above", "below"))))
        gap = getattr(other, axis) - getattr(one, axis)
        if abs(gap) > 0.12 * max(scene.grid):
            asked = rng.randrange(2)
            yes = (gap > 0) == (asked == 0)
            said = names[asked] if yes else names[1 - asked]
            answer = f"The {one.shape} is {said} the {other.shape}."
            found.append(QA("relation", f"Is the {one.shape} {names[asked]} the {other.shape}?", answer))
    side = rng.choice(("left", "right"))
    if thing := furthest(scene, side):
        found.append(QA("relation", f"Which shape is furthest to the {side}?", f"The {full_name(thing)}."))
    sizes = sorted(scene.things, key=lambda t: t.radius)
    if len(sizes) > 1 and sizes[-1].radius > 1.35 * sizes[-2].radius:
        found.append(QA("relation", "Which shape is the largest?", f"The {full_name(sizes[-1])}."))
    return found


def ask_shapes(scene: Scene, rng: random.Random) -> list[QA]:
    found = ask_counts(scene, rng) + ask_colours(scene, rng) + ask_yes_no(scene, rng) + ask_places(scene, rng)
    found.append(QA("background", rng.choice(BACKGROUND), background_answer(scene)))
    if len(scene.things) == 1:
        found += [QA("shape", q, f"The shape is {a(scene.things[0].shape)}.") for q in rng.sample(SHAPE, 2)]
    if len(scene.things) > 4:
        caption = f"The picture shows {NUMBERS[len(scene.things)]} shapes{on_background(scene)}."
        found.append(QA("caption", rng.choice(CAPTION), caption))
    elif ordered := reading_order(scene):
        names = listed([a(full_name(t)) for t in ordered])
        caption = QA("caption", rng.choice(CAPTION), f"The picture shows {names}{on_background(scene)}.")
        found += [caption, caption] if len(ordered) > 1 else [caption]
        if len(ordered) > 1:
            names = listed([a(t.shape) for t in ordered])
            found.append(QA("shape", rng.choice(SHAPE_LIST), f"The shapes are {names}."))
    return found
