"""Questions about a printed number or word."""

import random

from tools.demo_model.scene import Scene
from tools.demo_model.wording import (
    BACKGROUND,
    CAPTION,
    NUMBER,
    NUMBERS,
    QA,
    TEXT,
    WORD,
    background_answer,
    on_background,
)
from tools.demo_model.words import LETTERS, sample_printed


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


def ask_text(scene: Scene, rng: random.Random) -> list[QA]:
    """Questions about a printed number or word."""
    kind, text = scene.kind, scene.text
    asked = NUMBER if kind == "number" else WORD
    caption = f"The picture shows the {kind} {text} in {scene.ink}{on_background(scene)}."
    reading = [QA(kind, q, f"The {kind} is {text}.") for q in rng.sample(asked, 2)]
    guess = text if rng.random() < 0.5 else misread(kind, text, rng)
    yes = "Yes" if guess == text else "No"
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
    if rng.random() < 0.2:
        other, asked = ("word", WORD) if kind == "number" else ("number", NUMBER)
        found.append(QA("absent", rng.choice(asked), f"There is no {other} in the picture."))
    return found
