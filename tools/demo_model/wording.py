"""The words that questions and answers about pictures share."""

import random
from typing import NamedTuple

from tools.demo_model.scene import Scene

NUMBERS = ("no", "one", "two", "three", "four", "five", "six")
UNSURE = "I cannot tell."

CAPTION = (
    "Describe the picture.", "What is in the picture?", "What do you see?", "What does the picture show?",
    "What's in this picture?", "Describe this picture in one sentence.", "What can you see in this picture?",
    "Describe what you see.", "What is this?", "Tell me about this picture.", "Caption this picture.",
    "What can you see?", "What do you see in the picture?", "What's in the picture?",
    "Describe this picture.",
    "What is shown in the picture?", "Please describe the picture.", "What is in this picture?",
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
         "Count the shapes.", "How many objects are there?",
         "How many things are in the picture?")  # fmt: skip
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


OTHER_WORDS = (("picture", "image"), ("colour", "color"), ("grey", "gray"))


def reworded(qa: QA, rng: random.Random) -> QA:
    """Some questions as others would put them: image, color, gray; typed in haste."""
    question = qa.question
    if rng.random() < 0.2:
        for ours, theirs in OTHER_WORDS:
            question = question.replace(ours, theirs)
    if rng.random() < 0.06:
        question = question[0].lower() + question[1:].rstrip("?.")
    return qa._replace(question=question)


def a(name: str) -> str:
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


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
