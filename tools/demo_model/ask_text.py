"""Questions about a printed number or word, which is told in capitals, if its letters are large enough."""

import random

from tools.demo_model.scene import Scene
from tools.demo_model.wording import (
    BACKGROUND,
    CAPTION,
    NUMBER,
    NUMBERS,
    QA,
    TEXT,
    UNSURE,
    WORD,
    background_answer,
    on_background,
)
from tools.demo_model.words import LETTERS, sample_printed

LEGIBLE = 18.0  # pixels: smaller letters are mistaken by the tower that this model can afford


def misread(kind: str, text: str, rng: random.Random) -> str:
    """Another number or word: one character changed, the same ones in another order, or anything."""
    while True:
        pick, other = rng.random(), list(text)
        if pick < 0.4:
            other[rng.randrange(len(text))] = rng.choice("0123456789" if kind == "number" else LETTERS)
        elif pick < 0.6:
            rng.shuffle(other)
        elif kind == "number":
            other = rng.choices("0123456789", k=len(text))
        else:
            other = list(sample_printed(rng, listed=0.4))
        if "".join(other) != text:
            return "".join(other)


def ask_number(scene: Scene, rng: random.Random) -> list[QA]:
    text, count = scene.text, f"{NUMBERS[len(scene.text)]} {'digit' if len(scene.text) == 1 else 'digits'}"
    caption = f"The picture shows the number {text} in {scene.ink}{on_background(scene)}."
    guess = text if rng.random() < 0.5 else misread("number", text, rng)
    return [
        *(QA("number", q, f"The number is {text}.") for q in rng.sample(NUMBER, 2)),
        QA("number", rng.choice(TEXT), f"It says {text}."),
        QA("caption", rng.choice(CAPTION), caption),
        QA("yes/no", f"Is the number {guess}?", f"The number is {text}."),
        QA("count", "How many digits does the number have?", f"The number has {count}."),
    ]


def ask_word(scene: Scene, rng: random.Random) -> list[QA]:
    if scene.letter_width < LEGIBLE:
        asked = (*WORD, *TEXT, *CAPTION, f"Is the word {misread('word', scene.text, rng)}?")
        return [QA("small print", q, UNSURE) for q in rng.sample(asked, 3)]
    text = scene.text
    caption = f"The picture shows the word {text} in {scene.ink}{on_background(scene)}."
    guess = text if rng.random() < 0.5 else misread("word", text, rng)
    return [
        *(QA("word", q, f"The word is {text}.") for q in rng.sample(WORD, 2)),
        QA("word", rng.choice(TEXT), f"It says {text}."),
        QA("word", f"Is the word {guess}?", f"The word is {text}."),
        QA("caption", rng.choice(CAPTION), caption),
    ]


def ask_text(scene: Scene, rng: random.Random) -> list[QA]:
    """Questions about a printed number or word."""
    found = ask_number(scene, rng) if scene.kind == "number" else ask_word(scene, rng)
    found.append(QA("colour", f"What colour is the {scene.kind}?", f"The {scene.kind} is {scene.ink}."))
    found.append(QA("background", rng.choice(BACKGROUND), background_answer(scene)))
    if rng.random() < 0.2:
        other, asked = ("word", WORD) if scene.kind == "number" else ("number", NUMBER)
        found.append(QA("absent", rng.choice(asked), f"There is no {other} in the picture."))
    return found
