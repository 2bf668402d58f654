"""Training batches: a fixed mix of conversations about pictures, sounds, both and neither, in tensors
of fixed shape.
"""

import random
from collections import defaultdict
from typing import NamedTuple

import torch
from torch import Tensor

from tools.demo_model.aims import Aim, character_spots
from tools.demo_model.ask_more import (
    about_no_picture,
    about_no_sound,
    about_one_of_two,
    ask_both,
    explicit_sound_question,
    small_talk,
)
from tools.demo_model.ask_picture import ask_picture
from tools.demo_model.ask_shapes import ask_places
from tools.demo_model.ask_sound import ask_sound
from tools.demo_model.listen import SoundBatches
from tools.demo_model.mel import token_count
from tools.demo_model.rows import IGNORE, LENGTH, Part, PictureAt, Row, SoundAt
from tools.demo_model.scene import Scene
from tools.demo_model.see import PictureBatches
from tools.demo_model.shares import Shares
from tools.demo_model.sizes import AUDIO, CHUNK_FRAMES
from tools.demo_model.sounds import Sound
from tools.demo_model.tokens import SYSTEMS
from tools.demo_model.wording import QA

MIX = (
    ("picture",) * 5
    + ("picture turns", "two pictures", "two pictures")
    + ("sound",) * 3
    + ("sound turns",)
    + ("both",) * 3
)
RARE = ("two pictures", "mixed turns", "mixed turns", "text", "text")  # one of these a step
PICTURES, CHUNKS = 15, 10
SHARES = {
    "one": 9, "two or three": 31, "more": 15, "number": 9, "long number": 10,
    "word": 16, "blank": 1.5, "foreign": 8.5,
}  # fmt: skip
PLACES = 0.5  # the share of pictures of shapes that are asked about places first: few of the questions are


def picture_group(scene: Scene) -> str:
    """Its name in `SHARES`."""
    if scene.kind == "number" and len(scene.text) > 2:
        return "long number"
    if scene.kind != "shapes":
        return scene.kind
    return {1: "one", 2: "two or three", 3: "two or three"}.get(len(scene.things), "more")


class Batch(NamedTuple):
    """Tensors of one step; see `VisionTower`, `AudioTower` and `Thinker.hidden` for the shapes."""

    patches: Tensor
    rotary: Tensor
    lengths: Tensor
    patch_labels: Tensor
    mel: Tensor
    frames: Tensor
    ids: Tensor
    source: Tensor
    positions: Tensor
    branches: Tensor
    labels: Tensor
    aims: Tensor


class Batches:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.pictures = PictureBatches(seed)
        self.sounds = SoundBatches(seed)
        self.by_number: dict[str, list[int]] = defaultdict(list)
        self.by_group = Shares(SHARES)
        for i, scene in enumerate(self.pictures.pictures.scenes):
            self.by_group.add(picture_group(scene), i)
            if scene.kind == "number":
                self.by_number[scene.text].append(i)

    def take_picture(self, number: str | None = None) -> tuple[Scene, PictureAt]:
        """A scene and its place in the batch; of that number where one is asked for and drawn."""
        every = self.pictures.pictures
        index = (
            self.rng.choice(self.by_number[number])
            if number in self.by_number
            else self.by_group.draw(self.rng)
        )
        self.chosen.append(index)
        scene = every.scenes[index]
        characters = character_spots(scene.grid, every.labels(index)[:, 0], scene.text) if scene.text else []
        return scene, PictureAt(len(self.chosen) - 1, scene, characters)

    def ask(self, scene: Scene) -> list[QA]:
        """Questions about a picture, in the order to ask them in until there is no more room."""
        asked = ask_picture(scene, self.rng)
        if scene.kind != "shapes" or self.rng.random() > PLACES:
            return asked
        places = [qa for _ in range(2) for qa in ask_places(scene, self.rng) if qa.category == "place"]
        return list(dict.fromkeys(places)) + asked

    def take_sound(self, digits: bool = False) -> tuple[Sound, SoundAt]:
        """A sound, newly recorded, and its place; long ones only while there are spare chunks."""
        used = sum(m.shape[0] for m in self.mels)
        spare = CHUNKS - used - self.sounds_to_come
        chunks = 2 if spare > 0 and self.rng.random() < 0.5 else 1
        pool = self.sounds.short if chunks == 1 else self.sounds.long
        while True:
            index = pool.draw(self.rng)
            if not digits or self.sounds.sounds[index][0].kind == "digits":
                break
        sound, mel, frames = self.sounds.record(index, chunks)
        self.mels.append(mel.unflatten(1, (chunks, -1)).transpose(0, 1))
        self.frames += [min(max(frames - c * CHUNK_FRAMES, 1), CHUNK_FRAMES) for c in range(chunks)]
        self.sounds_to_come -= 1
        at = SoundAt(used, min(token_count(frames), chunks * CHUNK_FRAMES // 4))
        self.placed.append((sound, at))
        return sound, at

    def absent(self, has_picture: bool, has_sound: bool) -> list[QA]:
        """Questions about what the conversation does not have."""
        found = [] if has_picture else [about_no_picture(self.rng)]
        return found if has_sound else [*found, about_no_sound(self.rng)]

    def start(self) -> Row:
        row = Row()
        row.system(SYSTEMS[0] if self.rng.random() < 0.85 else self.rng.choice(SYSTEMS))
        return row

    def branched(self, media: list[Part], asked: list[QA]) -> Row:
        row = self.start()
        row.open_turn(media)
        for qa in asked:
            if row.room_for(qa.question, qa.answer):
                row.branch(qa.question, qa.answer)
        return row

    def turns(self, media: list[Part], asked: list[QA]) -> Row:
        """A conversation of several turns, the media in the first, before or after its text."""
        row = self.start()
        if self.rng.random() < 0.25:
            talk = small_talk(self.rng)
            row.turn([talk.question], talk.answer)
        for i, qa in enumerate(asked):
            if i == 0:
                parts = [qa.question, *media] if self.rng.random() < 0.75 else [*media, qa.question]
                row.turn(parts, qa.answer)
            elif row.room_for(qa.question, qa.answer):
                row.turn([qa.question], qa.answer)
        return row

    def with_asides(self, asked: list[QA], picture: bool, sound: bool) -> list[QA]:
        asides = [
            qa for qa in (*self.absent(picture, sound), small_talk(self.rng)) if self.rng.random() < 0.3
        ]
        for qa in asides:
            asked.insert(self.rng.randrange(1, 4), qa)
        return asked

    def make_row(self, kind: str) -> Row:
        rng = self.rng
        match kind:
            case "picture" | "picture turns":
                scene, at = self.take_picture()
                asked = self.with_asides(self.ask(scene), True, False)
                return self.branched([at], asked) if kind == "picture" else self.turns([at], asked)
            case "sound" | "sound turns":
                sound, at = self.take_sound()
                asked = self.with_asides(ask_sound(sound, rng), False, True)
                return self.branched([at], asked) if kind == "sound" else self.turns([at], asked)
            case "both":
                digits = rng.random() < 0.6
                sound, heard = self.take_sound(digits)
                number = (
                    sound.text
                    if rng.random() < 0.55
                    else "".join(rng.choice("0123456789") for _ in sound.text)
                )
                scene, seen = self.take_picture(number if digits else None)
                media = [seen, heard] if rng.random() < 0.6 else [heard, seen]
                asked = ask_both(scene, sound, rng)
                return self.branched(media, asked) if rng.random() < 0.75 else self.turns(media, asked[:3])
            case "two pictures":
                return self.two_pictures() if rng.random() < 0.5 else self.one_of_two()
            case "mixed turns":
                return self.mixed_turns()
        asked = [rng.choice((small_talk, about_no_picture, about_no_sound))(rng) for _ in range(8)]
        return self.branched([], asked)

    def two_pictures(self) -> Row:
        """A picture in one turn and another in the next; several questions about the second."""
        row = self.start()
        scene, at = self.take_picture()
        qa = self.ask(scene)[0]
        row.turn([at, qa.question] if self.rng.random() < 0.5 else [qa.question, at], qa.answer)
        scene, at = self.take_picture()
        asked = self.ask(scene)
        if self.rng.random() < 0.5:
            row.turn([asked[0].question, at], asked[0].answer)
            return row
        row.open_turn([at])
        for qa in asked:
            if row.room_for(qa.question, qa.answer):
                row.branch(qa.question, qa.answer)
        return row

    def one_of_two(self) -> Row:
        """Two pictures in one message, and questions about either."""
        seen = [self.take_picture() for _ in range(2)]
        row = self.start()
        row.open_turn([at for _, at in seen])
        for _ in range(3):
            which = self.rng.randrange(2)
            scene, row.picture = seen[which]
            qa = about_one_of_two(scene, which, self.rng)
            if qa and row.room_for(qa.question, qa.answer):
                row.branch(qa.question, qa.answer)
        return row

    def mixed_turns(self) -> Row:
        """A picture in one turn and a sound in another, in either order, each asked about by name."""
        row = self.start()
        scene, seen = self.take_picture()
        sound, heard = self.take_sound()
        first = self.ask(scene)[0]
        asked = ask_sound(sound, self.rng)
        second = next((qa for qa in asked if explicit_sound_question(qa)), asked[0])
        turns = [([seen, first.question], first.answer), ([heard, second.question], second.answer)]
        for parts, answer in turns if self.rng.random() < 0.5 else turns[::-1]:
            row.turn(parts, answer)
        return row

    def draw(self) -> Batch:
        self.chosen: list[int] = []
        self.mels: list[Tensor] = []
        self.frames: list[int] = []
        self.placed: list[tuple[Sound, SoundAt]] = []
        kinds = (*MIX, self.rng.choice(RARE))
        self.sounds_to_come = sum(kind in ("sound", "sound turns", "both", "mixed turns") for kind in kinds)
        rows = [self.make_row(kind) for kind in kinds]
        while len(self.chosen) < PICTURES:  # shapes are fixed: what is left over is seen but not asked about
            self.take_picture()
        patches, rotary, lengths, patch_labels = self.pictures.load(self.chosen)
        spare = CHUNKS - len(self.frames)
        mel = torch.cat([*self.mels, torch.zeros(spare, AUDIO["mels"], CHUNK_FRAMES)])

        def table(values: list[list], fill: object) -> Tensor:
            return torch.tensor([(v + [fill] * LENGTH)[:LENGTH] for v in values])

        return Batch(
            patches,
            rotary,
            lengths,
            patch_labels,
            mel,
            torch.tensor(self.frames + [1] * spare),
            table([r.ids for r in rows], 0),
            torch.tensor([r.sources(i, len(rows), PICTURES)[:LENGTH] for i, r in enumerate(rows)]),
            table([r.positions for r in rows], (0, 0, 0)).transpose(1, 2),
            table([r.branches for r in rows], -1),
            table([r.labels for r in rows], IGNORE),
            table([r.aims for r in rows], Aim()),
        )
