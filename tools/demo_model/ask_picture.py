"""Questions about one picture and their true answers, read from its scene."""

import itertools
import random
from collections import Counter
from typing import NamedTuple

from tools.demo_model.palette import COLOURS
from tools.demo_model.scene import SHAPES, Scene, Thing
from tools.demo_model.words import sample_printed

NUMBERS = ("no", "one", "two", "three", "four", "five", "six")
UNSURE = "I cannot tell."

CAPTION = (
    "Describe the picture.", "What is in the picture?", "What do you see?", "What does the picture show?",
    "What's in this picture?", "Describe this picture in one sentence.", "What can you see in this picture?",
    "Describe what you see.", "What is this?", "Tell me about this picture.", "Caption this picture.",
)  # fmt: skip
NUMBER = (
    "What number is in the picture?", "What number is this?", "Read the number.", "Which number do you see?",
    "What number is shown?", "What number do you see?", "What is the number?",
    "Which number is in this picture?",
    "What digit is this?",
)  # fmt: skip
WORD = (
    "What word is in the picture?", "What word is this?", "Read the word.", "Which word do you see?",
    "What is the word?", "What word is shown?", "What word is written here?",
)  # fmt: skip
TEXT = (
    "What does it say?", "Read the text.", "What is written in the picture?", "What text is in the picture?",
    "What is written here?", "What does the picture say?", "Read this.",
)  # fmt: skip
SHAPE = (
    "What shape is in the picture?", "What shape is it?", "Which shape do you see?", "What shape is this?",
    "What shape do you see?", "Name the shape.", "What shape is shown?",
)  # fmt: skip
SHAPE_LIST = (
    "What shapes are in the picture?",
    "Which shapes do you see?",
    "Name the shapes.",
    "List the shapes.",
)
COUNT = ("How many shapes are there?", "How many shapes are in the picture?", "How many shapes do you see?",
         "Count the shapes.", "How many objects are there?")  # fmt: skip
BACKGROUND = (
    "What colour is the background?",
    "Which colour is the background?",
    "What is the background colour?",
)


class QA(NamedTuple):
    """A category for the evaluation's table, a question, and its answer."""

    category: str
    question: str
    answer: str


def a(name: str) -> str:
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def full_name(thing: Thing) -> str:
    return f"{thing.colour} {thing.shape}"


def left_to_right(scene: Scene) -> list[Thing] | None:
    """The things in order, or None where two are nearly above each other and the order is a matter of
    taste.
    """
    things = sorted(scene.things, key=lambda t: t.x)
    gaps = [right.x - left.x for left, right in itertools.pairwise(things)]
    return things if all(gap > 0.06 * scene.grid[1] for gap in gaps) else None


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


def plural(shape: str) -> str:
    return "crosses" if shape == "cross" else f"{shape}s"


def count_sentence(count: int, shape: str) -> str:
    return f"There is one {shape}." if count == 1 else f"There are {NUMBERS[count]} {plural(shape)}."


def background_answer(scene: Scene) -> str:
    return (
        f"The background is {scene.background}."
        if scene.background
        else "The background has no single colour."
    )


def on_background(scene: Scene) -> str:
    return f" on {a(scene.background)} background" if scene.background else ""


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


def ask_yes_no(scene: Scene, rng: random.Random) -> list[QA]:
    thing = rng.choice(scene.things)
    names = {full_name(t) for t in scene.things}
    shapes = {t.shape for t in scene.things}
    if rng.random() < 0.5:
        name = full_name(thing)
    else:  # one of the two is right, so that the answer depends on both
        name = rng.choice((f"{rng.choice(COLOURS)} {thing.shape}", f"{thing.colour} {rng.choice(SHAPES)}"))
    shape = thing.shape if rng.random() < 0.4 else rng.choice(SHAPES)
    found = []
    for asked, there in ((name, name in names), (shape, shape in shapes)):
        question = rng.choice(("Is there {}?", "Is there {} in the picture?", "Do you see {}?")).format(
            a(asked)
        )
        found.append(
            QA("yes/no", question, f"Yes, there is {a(asked)}." if there else f"No, there is no {asked}.")
        )
    if [t.shape for t in scene.things].count(thing.shape) == 1:
        colour = thing.colour if rng.random() < 0.5 else rng.choice(COLOURS)
        yes = "Yes" if colour == thing.colour else "No"
        found.append(
            QA("yes/no", f"Is the {thing.shape} {colour}?", f"{yes}, the {thing.shape} is {thing.colour}.")
        )
    return found


def ask_places(scene: Scene, rng: random.Random) -> list[QA]:
    found = []
    unique = [t for t in scene.things if [s.shape for s in scene.things].count(t.shape) == 1]
    if unique and (place := place_name(scene, thing := rng.choice(unique))):
        found.append(QA("place", f"Where is the {thing.shape}?", f"The {thing.shape} is {place}."))
    if len(unique) >= 2:
        one, other = rng.sample(unique, 2)
        axis, names = rng.choice((("x", ("to the left of", "to the right of")), ("y", ("above", "below"))))
        gap = getattr(other, axis) - getattr(one, axis)
        if abs(gap) > 0.12 * max(scene.grid):
            asked = rng.randrange(2)
            yes = (gap > 0) == (asked == 0)
            said = names[asked] if yes else names[1 - asked]
            answer = f"{'Yes' if yes else 'No'}, the {one.shape} is {said} the {other.shape}."
            found.append(QA("relation", f"Is the {one.shape} {names[asked]} the {other.shape}?", answer))
    if len(scene.things) > 1 and (ordered := left_to_right(scene)):
        side, thing = rng.choice((("left", ordered[0]), ("right", ordered[-1])))
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
    elif ordered := left_to_right(scene):
        names = listed([a(full_name(t)) for t in ordered])
        caption = QA("caption", rng.choice(CAPTION), f"The picture shows {names}{on_background(scene)}.")
        found += [caption, caption] if len(ordered) > 1 else [caption]
        if len(ordered) > 1:
            names = listed([a(t.shape) for t in ordered])
            found.append(QA("shape", rng.choice(SHAPE_LIST), f"The shapes are {names}."))
    if rng.random() < 0.3:
        found.append(no_text(rng))
    return found


def no_text(rng: random.Random) -> QA:
    kind, asked = rng.choice((("number", NUMBER), ("word", WORD), ("text", TEXT)))
    return QA("absent", rng.choice(asked), f"There is no {kind} in the picture.")


def no_shape(rng: random.Random) -> QA:
    asked, answer = rng.choice(
        ((SHAPE, "There is no shape in the picture."), (COUNT, "There are no shapes."))
    )
    return QA("absent", rng.choice(asked), answer)


def ask_text(scene: Scene, rng: random.Random) -> list[QA]:
    """Questions about a printed number or word."""
    kind, text = scene.kind, scene.text
    asked = NUMBER if kind == "number" else WORD
    caption = f"The picture shows the {kind} {text} in {scene.ink}{on_background(scene)}."
    reading = [QA(kind, q, f"The {kind} is {text}.") for q in rng.sample(asked, 2)]
    other = "".join(rng.sample(text, len(text)))
    if rng.random() < 0.5:
        other = (
            "".join(rng.choice("0123456789") for _ in text)
            if kind == "number"
            else sample_printed(rng, listed=0.4)
        )
    guess = text if rng.random() < 0.5 else other
    yes = "Yes" if guess == text else "No"
    wrong = ("word", WORD) if kind == "number" else ("number", NUMBER)
    found = [
        *reading,
        QA(kind, rng.choice(TEXT), f"It says {text}."),
        QA("caption", rng.choice(CAPTION), caption),
        QA("colour", f"What colour is the {kind}?", f"The {kind} is {scene.ink}."),
        QA("yes/no", f"Is the {kind} {guess}?", f"{yes}, the {kind} is {text}."),
        QA("background", rng.choice(BACKGROUND), background_answer(scene)),
    ]
    if kind == "number":
        size = NUMBERS[len(text)]
        digits = "digit" if len(text) == 1 else "digits"
        found.append(QA("count", "How many digits does the number have?", f"The number has {size} {digits}."))
    if rng.random() < 0.3:
        found.append(no_shape(rng))
    if rng.random() < 0.2:
        found.append(QA("absent", rng.choice(wrong[1]), f"There is no {wrong[0]} in the picture."))
    return found


def ask_foreign(rng: random.Random) -> list[QA]:
    thing, colour = rng.choice(SHAPES), rng.choice(COLOURS)
    asked = [rng.choice(group) for group in (CAPTION, CAPTION, NUMBER, WORD, TEXT, SHAPE, COUNT)]
    asked += [f"What colour is the {thing}?", f"Is there {a(colour)} {thing}?", f"Where is the {thing}?"]
    return [QA("foreign picture", q, UNSURE) for q in asked]


def ask_blank(scene: Scene, rng: random.Random) -> list[QA]:
    return [
        QA("caption", rng.choice(CAPTION), f"The picture is plain {scene.background}."),
        QA("background", rng.choice(BACKGROUND), background_answer(scene)),
        no_text(rng),
        no_shape(rng),
        QA("yes/no", f"Is there {a(shape := rng.choice(SHAPES))}?", f"No, there is no {shape}."),
    ]


def ask_picture(scene: Scene, rng: random.Random) -> list[QA]:
    """Every kind of question that fits the scene, in random order."""
    match scene.kind:
        case "shapes":
            found = ask_shapes(scene, rng)
        case "number" | "word":
            found = ask_text(scene, rng)
        case "blank":
            found = ask_blank(scene, rng)
        case _:
            found = ask_foreign(rng)
    rng.shuffle(found)
    return found
