"""The held-out evaluation: fonts, words and voices never trained on, whole answers, a fixed seed.

`python -m tools.demo_model.evaluate [PER_CATEGORY [FOLDER]]` prints a table. Needs the fonts and speech
programs of the training; human digits are read from Debian's asterisk-core-sounds-en-wav if it is there.
"""

import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from tools.demo_model import ask_sound, wording
from tools.demo_model.answer import Demo, Part, Turn, load_sound
from tools.demo_model.ask_more import about_no_picture, about_no_sound, about_one_of_two, ask_both, small_talk
from tools.demo_model.ask_picture import ask_picture as ask_about_picture
from tools.demo_model.ask_picture import ask_unseen
from tools.demo_model.ask_sound import ask_sound as ask_about_sound
from tools.demo_model.draw import draw
from tools.demo_model.pictures import sample_scene
from tools.demo_model.scene import Scene, sample_shapes, sample_text
from tools.demo_model.sounds import Sound, make, sample_sound
from tools.demo_model.tokens import CHECKPOINT
from tools.demo_model.wording import QA, UNSURE
from tools.demo_model.words import PRINTED_HELD_OUT, UNSEEN_HELD_OUT

HUMAN_DIGITS = Path("/usr/share/asterisk/sounds/en_US_f_Allison/digits")
LARGE_PRINT = 24  # pixels a letter
Case = tuple[QA, list[Turn]]


def single(qa: QA, *media: Part) -> Case:
    return qa, [("user", [*media, qa.question])]


def held_out_scene(rng: random.Random) -> Scene:
    scene = sample_scene(rng)
    return sample_text(rng, "word", rng.choice(PRINTED_HELD_OUT).upper()) if scene.kind == "word" else scene


def picture_cases(rng: random.Random) -> Iterator[Case]:
    scene = held_out_scene(rng)
    picture = Image.fromarray(draw(scene, rng, held_out=True).pixels)
    for qa in ask_about_picture(scene, rng)[:4]:
        yield single(qa, picture)


def sound_cases(rng: random.Random) -> Iterator[Case]:
    sound = sample_sound(rng)
    samples = make(sound, rng, held_out=True) * rng.uniform(0.2, 0.9)
    for qa in ask_about_sound(sound, rng)[:3]:
        yield single(qa, samples)


def both_cases(rng: random.Random) -> Iterator[Case]:
    scene, sound = held_out_scene(rng), sample_sound(rng)
    if rng.random() < 0.6:
        sound.kind, sound.text = (
            "digits",
            "".join(rng.choice("0123456789") for _ in range(rng.randrange(1, 4))),
        )
        number = sound.text if rng.random() < 0.5 else "".join(rng.choice("0123456789") for _ in sound.text)
        scene = sample_text(rng, "number", number)
    picture = Image.fromarray(draw(scene, rng, held_out=True).pixels)
    samples = make(sound, rng, held_out=True) * rng.uniform(0.2, 0.9)
    for qa in [qa for qa in ask_both(scene, sound, rng) if qa.category == "picture and sound"][:2]:
        yield single(qa, picture, samples)


def simple_cases(rng: random.Random) -> Iterator[Case]:
    """What a newcomer tries first: one shape, one printed number or large word, one spoken digit."""
    scene = sample_shapes(rng, 1)
    picture = Image.fromarray(draw(scene, rng).pixels)
    for qa in ask_about_picture(scene, rng):
        if qa.category in ("shape", "colour", "caption", "count", "yes/no"):
            yield single(qa._replace(category=f"one shape: {qa.category}"), picture)
    yield single(ask_unseen(UNSEEN_HELD_OUT, rng)._replace(category="unseen, other things"), picture)
    for digits, name in ((1, "printed digit"), (2, "two printed digits")):
        number = "".join(rng.choices("0123456789", k=digits))
        picture = Image.fromarray(draw(sample_text(rng, "number", number), rng, held_out=True).pixels)
        yield single(QA(name, rng.choice(wording.NUMBER), f"The number is {number}."), picture)
    scene = sample_text(rng, "word", rng.choice(PRINTED_HELD_OUT).upper())
    picture = Image.fromarray(draw(scene, rng, held_out=True).pixels)
    if scene.letter_width >= LARGE_PRINT:
        yield single(QA("large word", rng.choice(wording.WORD), f"The word is {scene.text}."), picture)
    sound = Sound("digits", rng.choice("0123456789"))
    samples = make(sound, rng, held_out=True) * rng.uniform(0.2, 0.9)
    yield single(
        QA("spoken digit", rng.choice(ask_sound.NUMBER), f"I hear the number {sound.text}."), samples
    )


def turn_cases(rng: random.Random) -> Iterator[Case]:
    """A picture, then another, each asked about in its turn; the answer to the second counts."""
    scenes = [held_out_scene(rng) for _ in range(2)]
    pictures = [Image.fromarray(draw(scene, rng, held_out=True).pixels) for scene in scenes]
    first, second = (ask_about_picture(scene, rng)[0] for scene in scenes)
    begun: list[Turn] = [("user", [pictures[0], first.question]), ("assistant", first.answer)]
    yield second._replace(category="second turn"), [*begun, ("user", [pictures[1], second.question])]


def pair_cases(rng: random.Random) -> Iterator[Case]:
    """Two pictures in one message, and a question about either."""
    scenes = [held_out_scene(rng) for _ in range(2)]
    pictures = [Image.fromarray(draw(scene, rng, held_out=True).pixels) for scene in scenes]
    which = rng.randrange(2)
    if qa := about_one_of_two(scenes[which], which, rng):
        yield single(qa, *pictures)


def text_cases(rng: random.Random) -> Iterator[Case]:
    yield from (single(ask(rng)) for ask in (small_talk, about_no_picture, about_no_sound))


def human_cases(rng: random.Random) -> Iterator[Case]:
    for digit in "0123456789" if HUMAN_DIGITS.exists() else "":
        samples = load_sound(HUMAN_DIGITS / f"{digit}.wav")
        for question in rng.sample(ask_sound.NUMBER, 3):
            yield single(QA("human digit", question, f"I hear the number {digit}."), samples)


def foreign_cases(folder: Path, rng: random.Random) -> Iterator[Case]:
    """Every picture and sound in the folder, taken to be nothing that the model knows."""
    for path in sorted(folder.iterdir()):
        if path.suffix in (".png", ".jpg"):
            for question in (rng.choice(wording.CAPTION), rng.choice(wording.SHAPE)):
                yield single(QA("photograph", question, UNSURE), Image.open(path))
        elif path.suffix in (".wav", ".flac"):
            question = rng.choice(ask_sound.CAPTION)
            yield single(QA("foreign recording", question, UNSURE), load_sound(path))


def cases(per_category: int, seed: str) -> Iterator[Case]:
    """Cases until every category has its number; those beyond it are left out."""
    rng = random.Random(seed)
    counts: dict[str, int] = defaultdict(int)
    for source in (text_cases, picture_cases, sound_cases, both_cases, turn_cases, pair_cases, simple_cases):
        for _ in range(per_category * 4):
            for qa, turns in source(rng):
                if counts[qa.category] < per_category:
                    counts[qa.category] += 1
                    yield qa, turns
    yield from human_cases(rng)


def main(per_category: int, folder: Path | None) -> None:
    demo = Demo(CHECKPOINT)
    right, total, refused, answerable = defaultdict(int), defaultdict(int), 0, 0
    extra = foreign_cases(folder, random.Random("foreign")) if folder else ()
    for qa, turns in (*cases(per_category, "evaluation"), *extra):
        said = demo.answer(turns)
        total[qa.category] += 1
        right[qa.category] += said == qa.answer
        answerable += qa.answer != UNSURE
        refused += said == UNSURE != qa.answer
        if said != qa.answer:
            print(f"{qa.category}: {qa.question} -> {said!r}, not {qa.answer!r}", file=sys.stderr)
    print("| category | right | of | share |\n|---|---|---|---|")
    for name in sorted(total):
        print(f"| {name} | {right[name]} | {total[name]} | {right[name] / total[name]:.2f} |")
    print(f"\nFalse refusals: {refused} of {answerable} ({refused / answerable:.1%})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40, Path(sys.argv[2]) if len(sys.argv) > 2 else None)
