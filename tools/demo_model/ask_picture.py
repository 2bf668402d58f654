"""Questions about one picture and their true answers, read from its scene."""

import random

from tools.demo_model.ask_shapes import ask_shapes
from tools.demo_model.ask_text import ask_text
from tools.demo_model.palette import COLOURS
from tools.demo_model.scene import SHAPES, Scene
from tools.demo_model.wording import (
    BACKGROUND,
    CAPTION,
    COUNT,
    NUMBER,
    QA,
    SHAPE,
    TEXT,
    UNSURE,
    WORD,
    a,
    background_answer,
    reworded,
)
from tools.demo_model.words import UNSEEN


def no_text(rng: random.Random) -> QA:
    kind, asked = rng.choice((("number", NUMBER), ("word", WORD), ("text", TEXT)))
    return QA("absent", rng.choice(asked), f"There is no {kind} in the picture.")


def no_shape(rng: random.Random) -> QA:
    asked, answer = rng.choice(
        ((SHAPE, "There is no shape in the picture."), (COUNT, "There are no shapes."))
    )
    return QA("absent", rng.choice(asked), answer)


def ask_unseen(things: tuple[str, ...], rng: random.Random) -> QA:
    """A question about something that no picture here shows by its name."""
    thing = rng.choice(things)
    asked = (
        "Is there {}?", "Is there {} in the picture?", "Do you see {}?", "Can you see {}?", "Is this {}?",
        "What colour is the {}?", "Where is the {}?", "Is the {} red?",
    )  # fmt: skip
    question = rng.choice(asked)
    return QA("unseen", question.format(thing if "the {}" in question else a(thing)), UNSURE)


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
            found = ask_shapes(scene, rng) + [no_text(rng)] * (rng.random() < 0.3)
        case "number" | "word":
            found = ask_text(scene, rng) + [no_shape(rng)] * (rng.random() < 0.3)
        case "blank":
            found = ask_blank(scene, rng)
        case _:
            found = ask_foreign(rng)
    found += [ask_unseen(UNSEEN, rng)] * (rng.random() < 0.3)
    rng.shuffle(found)
    return [reworded(qa, rng) for qa in found]
