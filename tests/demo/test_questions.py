"""The questions that the demonstration model learns from: their answers are true, and not to be guessed."""

import random

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


def is_yes(qa: QA) -> bool:
    yes = qa.answer.startswith("Yes,") or qa.answer.endswith(", so yes.")
    assert yes != (qa.answer.startswith("No,") or qa.answer.endswith(", so no.")), qa
    return yes


def yes_or_no(asked: list[QA]) -> list[bool]:
    return [is_yes(qa) for qa in asked if qa.category.endswith("yes/no")]


@pytest.mark.parametrize("kind", ["one shape", "shapes", "digit", "number"])
def test_half_of_the_questions_about_a_picture_are_answered_with_yes(kind: str) -> None:
    rng = random.Random(0)
    answers = [yes for _ in range(700) for yes in yes_or_no(ask_picture(scene_of(kind, rng), rng))]
    assert 0.45 < sum(answers) / len(answers) < 0.55


def test_half_of_the_questions_about_a_spoken_digit_are_answered_with_yes() -> None:
    rng = random.Random(0)
    asked = [qa for _ in range(700) for qa in ask_sound(Sound("digits", "7"), rng) if "number" in qa.question]
    answers = yes_or_no(asked)
    assert 0.45 < sum(answers) / len(answers) < 0.55


def test_a_yes_names_what_is_there_and_a_no_what_is_not() -> None:
    rng = random.Random(0)
    for _ in range(300):
        scene = sample_shapes(rng)
        names = {f"{t.colour} {t.shape}" for t in scene.things} | {t.shape for t in scene.things}
        for qa in ask_picture(scene, rng):
            if qa.question.startswith(("Is there a", "Do you see a")):
                asked = qa.question.removesuffix(" in the picture?").rstrip("?").split(" a", 1)[1]
                assert (asked.removeprefix("n").strip() in names) == is_yes(qa), (names, qa)


def test_the_reason_for_a_yes_or_no_is_true() -> None:
    rng = random.Random(0)
    for _ in range(300):
        scene = sample_shapes(rng)
        reasons = {f"The {t.shape} is {t.colour}" for t in scene.things}
        for qa in ask_picture(scene, rng):
            if qa.category == "yes/no" and ", so " in qa.answer:
                assert qa.answer.rpartition(", so ")[0] in reasons, (scene, qa)


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
