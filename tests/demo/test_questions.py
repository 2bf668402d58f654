"""The questions that the demonstration model learns from: their answers are true, and not to be guessed."""

import random
import re

import pytest

from tools.demo_model.ask_picture import ask_picture
from tools.demo_model.ask_sound import ask_sound
from tools.demo_model.ask_text import misread
from tools.demo_model.scene import Scene, sample_shapes, sample_text
from tools.demo_model.shares import Shares
from tools.demo_model.sounds import Sound
from tools.demo_model.wording import QA


def scene_of(kind: str, rng: random.Random) -> Scene:
    match kind:
        case "one shape":
            return sample_shapes(rng, 1)
        case "shapes":
            return sample_shapes(rng)
        case "digit":
            return sample_text(rng, "number", rng.choice("0123456789"))
        case "number":
            return sample_text(rng, "number", "".join(rng.choices("0123456789", k=3)))
    raise ValueError(kind)


def is_true(question: str, scene: Scene) -> bool:
    """What a person would answer to one of the questions that take yes or no."""
    if found := re.match(r"Is the number (\d+)\?", question):
        return found[1] == scene.text
    names = {f"{t.colour} {t.shape}" for t in scene.things} | {t.shape for t in scene.things}
    if found := re.match(r"Is the (\w+) (\w+)\?", question):
        return f"{found[2]} {found[1]}" in names
    found = re.match(r"(?:Is there|Do you see) an? (.*?)(?: in the picture)?\?", question)
    assert found, question
    return found[1] in names


def asked(scene: Scene, rng: random.Random) -> list[QA]:
    return [qa for qa in ask_picture(scene, rng) if qa.category == "yes/no"]


@pytest.mark.parametrize("kind", ["one shape", "shapes", "digit", "number"])
def test_half_of_the_questions_about_a_picture_could_be_answered_with_yes(kind: str) -> None:
    rng = random.Random(0)
    scenes = [scene_of(kind, rng) for _ in range(700)]
    truths = [is_true(qa.question, scene) for scene in scenes for qa in asked(scene, rng)]
    assert 0.45 < sum(truths) / len(truths) < 0.55


def test_a_yes_a_no_or_a_property_is_true() -> None:
    rng = random.Random(0)
    for _ in range(300):
        scene = sample_shapes(rng)
        properties = {f"The {t.shape} is {t.colour}." for t in scene.things}
        for qa in asked(scene, rng):
            if qa.answer not in properties:
                assert qa.answer.startswith("Yes, there is a" if is_true(qa.question, scene) else "No, there")


def test_half_of_the_questions_about_a_spoken_digit_name_it() -> None:
    rng = random.Random(0)
    questions = [qa.question for _ in range(700) for qa in ask_sound(Sound("digits", "7"), rng)]
    named = [question == "Is the number 7?" for question in questions if question.startswith("Is the number")]
    assert 0.45 < sum(named) / len(named) < 0.55


@pytest.mark.parametrize(("kind", "text"), [("number", "4"), ("number", "77"), ("word", "AAA")])
def test_a_misread_text_is_another_text(kind: str, text: str) -> None:
    rng = random.Random(0)
    assert text not in {misread(kind, text, rng) for _ in range(200)}


def test_groups_are_drawn_by_their_shares_and_not_by_their_sizes() -> None:
    shares = Shares({"few": 3, "many": 1, "none": 9})
    shares.add("few", 0)
    for member in range(1, 100):
        shares.add("many", member)
    rng = random.Random(0)
    assert 0.7 < sum(shares.draw(rng) == 0 for _ in range(1000)) / 1000 < 0.8
