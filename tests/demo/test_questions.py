"""The questions that the demonstration model learns from: their answers are true, and not to be guessed."""

import random
import re

import numpy as np
import pytest

from tools.demo_model.ask_more import about_one_of_two
from tools.demo_model.ask_picture import ask_picture, ask_unseen
from tools.demo_model.ask_shapes import ask_neighbour, furthest, reading_order
from tools.demo_model.ask_sound import ask_sound, heard, spoken
from tools.demo_model.ask_text import LEGIBLE, misread
from tools.demo_model.draw import CLASSES, letter_width
from tools.demo_model.palette import COLOURS
from tools.demo_model.pictures import from_patch_order, to_patch_order
from tools.demo_model.scene import SHAPES, Scene, Thing, sample_shapes, sample_text
from tools.demo_model.shares import Shares
from tools.demo_model.sounds import Sound
from tools.demo_model.wording import QA, UNSURE, reworded
from tools.demo_model.words import UNSEEN, UNSEEN_HELD_OUT


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
    """What a person would answer to one of the questions that take yes or no, however it is put."""
    question = question.replace("gray", "grey").replace("image", "picture").rstrip("?") + "?"
    question = question[0].upper() + question[1:]
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


def things_at(*spots: tuple[float, float]) -> Scene:
    """Things named by their number, at these places (x, y) in patches of a picture of 14 by 14."""
    things = [Thing(str(i), "red", (255, 0, 0), x, y, 1.0, 0.0) for i, (x, y) in enumerate(spots)]
    return Scene("shapes", (14, 14), "white", (255, 255, 255), things)


@pytest.mark.parametrize(("spots", "order"), [
    (((9, 2), (3, 8), (6, 1)), "120"),
    (((7, 9), (7.2, 2)), "10"),
    (((10, 9), (3.1, 11), (3, 2), (10.2, 1)), "2130"),
])  # fmt: skip
def test_things_are_told_column_by_column_each_from_the_top(spots: tuple, order: str) -> None:
    found = reading_order(things_at(*spots))
    assert found is not None
    assert "".join(thing.shape for thing in found) == order


def test_nothing_is_told_where_the_order_is_a_matter_of_taste() -> None:
    assert reading_order(things_at((7, 2), (7.7, 9))) is None


def test_the_furthest_thing_is_so_by_far() -> None:
    scene = things_at((2, 2), (2.2, 9), (11, 5))
    assert furthest(scene, "left") is None
    right = furthest(scene, "right")
    assert right is not None
    assert right.shape == "2"


def word_of_width(width: float) -> Scene:
    scene = Scene("word", (14, 14), "white", (255, 255, 255), [], "STOP", "black")
    scene.letter_width = width
    return scene


def test_a_word_is_read_if_its_letters_are_large_enough() -> None:
    rng = random.Random(0)
    large = [
        qa.answer for qa in ask_picture(word_of_width(LEGIBLE), rng) if qa.category in ("word", "caption")
    ]
    assert len(large) == 5
    assert all("STOP" in answer for answer in large)
    small = ask_picture(word_of_width(LEGIBLE - 1), rng)
    assert all("STOP" not in qa.answer for qa in small)
    assert [qa.answer for qa in small if qa.category == "small print"] == [UNSURE] * 3


def test_a_letter_is_as_wide_as_the_patches_it_covers() -> None:
    labels = np.zeros((14, 14, 2), np.uint8)
    for i, letter in enumerate("STOP"):
        labels[5:8, 1 + 3 * i : 4 + 3 * i, 0] = CLASSES.index(letter)
    assert letter_width(word_of_width(0), labels) == 24
    assert (from_patch_order(to_patch_order(labels), (14, 14)) == labels).all()


@pytest.mark.parametrize(("which", "name"), [(0, "first"), (1, "second")])
def test_one_of_two_pictures_is_named_and_described(which: int, name: str) -> None:
    rng = random.Random(0)
    qa = about_one_of_two(word_of_width(LEGIBLE), which, rng)
    assert qa is not None
    assert f"the {name} picture" in qa.question
    assert qa.answer == "The picture shows the word STOP in black on a white background."


def neighbours(scene: Scene) -> set[QA]:
    rng = random.Random(0)
    return {qa for _ in range(60) for thing in scene.things for qa in ask_neighbour(scene, thing, rng)}


def test_what_is_beside_a_thing_is_told_where_one_thing_is() -> None:
    told = {qa.answer for qa in neighbours(things_at((3, 3), (3, 11)))}
    assert told >= {
        "The red 0 is above the 1.",
        "The red 1 is below the 0.",
        "There is nothing above the 0.",
        "There is nothing to the left of the 0.",
    }
    assert "There is nothing below the 0." not in told


def test_what_is_beside_a_thing_is_not_asked_where_two_things_may_be_meant() -> None:
    assert not any("above the 2" in qa.answer for qa in neighbours(things_at((3, 2), (9, 3), (6, 12))))
    assert not any("above the 1" in qa.answer for qa in neighbours(things_at((3, 5), (9, 6))))


def test_what_pictures_never_show_by_name_is_not_drawn_and_not_told() -> None:
    rng = random.Random(0)
    known = {*SHAPES, *COLOURS}
    assert not known & {*UNSEEN, *UNSEEN_HELD_OUT}
    assert not set(UNSEEN) & set(UNSEEN_HELD_OUT)
    assert {ask_unseen(UNSEEN, rng).answer for _ in range(50)} == {UNSURE}


def test_a_question_put_otherwise_has_the_same_answer() -> None:
    rng = random.Random(0)
    qa = QA("colour", "What colour is the grey shape in the picture?", "It is grey.")
    put = {reworded(qa, rng) for _ in range(300)}
    assert {p.answer for p in put} == {"It is grey."}
    assert {p.question for p in put} == {
        "What colour is the grey shape in the picture?",
        "What color is the gray shape in the image?",
        "what colour is the grey shape in the picture",
        "what color is the gray shape in the image",
    }


@pytest.mark.parametrize(("digits", "said"), [
    ("10", "ten"), ("14", "fourteen"), ("20", "twenty"), ("42", "forty two"), ("99", "ninety nine"),
])  # fmt: skip
def test_a_number_said_as_one_is_told_in_digits_and_written_down_in_words(digits: str, said: str) -> None:
    sound = Sound("digits", digits, whole=True)
    assert (heard(sound), spoken(sound)) == (f"I hear the number {digits}.", said)
    assert "How many digits do you hear?" not in {qa.question for qa in ask_sound(sound, random.Random(0))}


def test_digits_said_one_by_one_are_written_down_so() -> None:
    assert spoken(Sound("digits", "42")) == "four two"


@pytest.mark.parametrize(("sound", "answer"), [
    (Sound("tone", "", "middle"), "I hear a tone of middle pitch."),
    (Sound("beeps", "1", "middle"), "I hear one beep of middle pitch."),
    (Sound("beeps", "3", "low"), "I hear three low beeps."),
])  # fmt: skip
def test_a_tone_is_high_low_or_in_the_middle(sound: Sound, answer: str) -> None:
    assert heard(sound) == answer
