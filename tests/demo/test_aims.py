"""Where the words of a training conversation point in its picture."""

import numpy as np
import pytest

from tools.demo_model.aims import NOWHERE, Aim, aims, character_spots
from tools.demo_model.draw import CLASSES
from tools.demo_model.palette import COLOURS
from tools.demo_model.pictures import to_patch_order
from tools.demo_model.rows import PictureAt, Row
from tools.demo_model.scene import SHAPES, Scene, Thing
from tools.demo_model.tokens import encode, special

RED_STAR = Thing("star", "red", (255, 0, 0), 3.0, 9.0, 2.0, 0.0)
RED_HEART = Thing("heart", "red", (255, 0, 0), 11.0, 5.0, 2.0, 0.0)
SCENE = Scene("shapes", (14, 14), "white", (255, 255, 255), [RED_HEART, RED_STAR])
NUMBER = Scene("number", (14, 14), "white", (255, 255, 255), [], "47", "black")


def aim_of(text: str, token: str, scene: Scene = SCENE, digits: list | None = None) -> Aim:
    """The aim of the last such token of the text."""
    ids = encode(text)
    return aims(text, scene, digits or [])[max(i for i, t in enumerate(ids) if t == encode(token)[0])]


def thing_at(row: int, column: int, shape: str, colour: str, count: int) -> Aim:
    return Aim(NOWHERE, NOWHERE, row, column, SHAPES.index(shape), COLOURS.index(colour), count)


def test_a_word_that_names_one_thing_points_at_it() -> None:
    assert aim_of("Where is the star?", " star") == thing_at(4, 1, "star", "red", 1)
    assert aim_of("Is there a red heart?", " heart") == thing_at(2, 5, "heart", "red", 1)


@pytest.mark.parametrize(("text", "token", "count"), [
    ("How many red shapes are there?", " shapes", 2),
    ("How many shapes are there?", " shapes", 2),
    ("How many circles are there?", " circles", 0),
])  # fmt: skip
def test_a_word_that_names_several_things_or_none_only_counts(text: str, token: str, count: int) -> None:
    assert aim_of(text, token) == Aim(named_count=count)


def test_a_name_that_fits_nothing_points_at_the_one_thing_of_its_shape() -> None:
    assert aim_of("Do you see a blue star?", " star") == thing_at(4, 1, "star", "red", 0)


def test_a_caption_looks_at_what_it_tells_next() -> None:
    text = "The picture shows a red star and a red heart."
    found = [(a.next_row, a.next_column) for a in aims(text, SCENE, []) if a.next_row != NOWHERE]
    assert found == [(4, 1), (2, 5)]
    other_order = "The picture shows a red heart and a red star."
    assert all(a.next_row == NOWHERE for a in aims(other_order, SCENE, []))


def test_a_number_is_read_digit_by_digit_and_only_where_it_is_printed() -> None:
    spots = [(3, 2), (3, 4)]
    found = aims("I see 47 and hear 47.", NUMBER, spots)
    assert [(a.next_row, a.next_column) for a in found if a.next_row != NOWHERE] == spots
    assert all(a == Aim() for a in aims("I hear the number 47.", NUMBER, spots))


def covered(**columns: tuple[int, int]) -> np.ndarray:
    """The classes of the patches of a picture in which each character stands on rows 6 and 7, in these
    columns.
    """
    classes = np.zeros((14, 14, 1), int)
    for name, (begin, end) in columns.items():
        classes[6:8, begin:end] = CLASSES.index(name[-1])
    return to_patch_order(classes)[:, 0]


def test_characters_stand_where_their_patches_are() -> None:
    assert character_spots((14, 14), covered(_4=(4, 8), _7=(8, 12)), "47") == [(3, 3), (3, 5)]
    assert character_spots((14, 14), covered(I=(2, 3), W=(4, 9)), "IW") == [(3, 1), (3, 3)]
    assert character_spots((14, 14), np.zeros(196, int), "47") == []


def test_a_character_that_covers_no_patch_stands_where_its_turn_is() -> None:
    assert character_spots((14, 14), covered(L=(0, 4), W=(8, 12)), "LIW") == [(3, 1), (3, 3), (3, 5)]


def test_equal_characters_are_told_apart_by_their_turn() -> None:
    assert character_spots((14, 14), covered(L=(4, 12)), "LL") == [(3, 3), (3, 4)]


def test_a_word_is_read_letter_by_letter() -> None:
    word = Scene("word", (14, 14), "white", (255, 255, 255), [], "IS", "black")
    found = aims("The word is IS.", word, [(3, 2), (3, 4)])
    assert [i for i, a in enumerate(found) if a.next_row != NOWHERE] == [3, 4]


def test_a_question_before_its_picture_points_nowhere() -> None:
    row = Row()
    row.turn(["Where is the star?", PictureAt(0, SCENE, [])], "The star is at the left.")
    assert len(row.aims) == len(row.ids)
    star = encode(" star")[0]
    asked, answered = (row.aims[i] for i, token in enumerate(row.ids) if token == star)
    assert asked == Aim()
    assert answered == thing_at(4, 1, "star", "red", 1)
    picture = [aim for aim, token in zip(row.aims, row.ids, strict=True) if token == special("<|IMAGE|>")]
    assert [(a.row, a.column) for a in picture] == [(y, x) for y in range(7) for x in range(7)]
