"""What is drawn is what its scene says: things apart and inside, letters where their labels are."""

import random
from itertools import combinations

import numpy as np
import pytest
from PIL import Image

from tools.demo_model.draw import CLASSES, draw
from tools.demo_model.printed import Bend, bent
from tools.demo_model.scene import Scene, line_up, sample_shapes


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_things_neither_touch_nor_leave_the_picture(count: int) -> None:
    rng = random.Random(count)
    for _ in range(100):
        scene = sample_shapes(rng, count)
        height, width = scene.grid
        for thing in scene.things:
            assert thing.radius - 0.11 <= thing.x <= width - thing.radius + 0.11
            assert thing.radius - 0.11 <= thing.y <= height - thing.radius + 0.11
        for a, b in combinations(scene.things, 2):
            assert np.hypot(a.x - b.x, a.y - b.y) > a.radius + b.radius


def test_three_things_are_lined_up_in_a_row_or_a_column() -> None:
    rng = random.Random(0)
    found = [line_up((14, 14), [1.5] * 3, rng) for _ in range(50)]
    spreads = [tuple(np.ptp(np.array(centres), axis=0)) for centres in found if centres]
    assert len(spreads) == 50
    assert {x < 0.3 for x, _ in spreads} == {True, False}
    assert all((x < 0.3) != (y < 0.3) for x, y in spreads)


def test_things_that_do_not_fit_into_a_line_are_not_placed() -> None:
    rng = random.Random(0)
    assert not any(line_up((12, 12), [2.0] * 5, rng) for _ in range(50))


def black_on_white(text: str) -> Scene:
    return Scene("word", (10, 18), "white", (255, 255, 255), [], text, "black", (0, 0, 0))


@pytest.mark.parametrize("held_out", [False, True])
def test_ink_lies_where_the_labels_say_letters_are(held_out: bool) -> None:
    rng = random.Random(1)
    for _ in range(20):
        drawing = draw(black_on_white("STOP"), rng, held_out)
        covered = drawing.labels[..., 0] > 0
        assert {CLASSES[c] for c in np.unique(drawing.labels[..., 0][covered])} <= set("STOP")
        dark = drawing.pixels.reshape(10, 8, 18, 8, 3).mean((1, 3, 4)) < 128
        near = np.array([[covered[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2].any() for x in range(18)]
                         for y in range(10)])  # fmt: skip
        assert not (dark & ~near).any()


def test_a_bend_squeezes_and_slants_around_the_middle() -> None:
    image = Image.new("L", (41, 41))
    image.paste(255, (18, 2, 23, 39))
    squeezed = np.asarray(bent(image, Bend(height=0.5))) > 128
    assert np.nonzero(squeezed[:, 20])[0][[0, -1]] == pytest.approx([11.5, 28.5], abs=1)
    slanted = np.asarray(bent(image, Bend(slant=0.5))) > 128
    assert slanted[20, 20]
    assert np.nonzero(slanted[5])[0].mean() == pytest.approx(27.5, abs=1)
    assert np.nonzero(slanted[35])[0].mean() == pytest.approx(12.5, abs=1)
