"""Conversations to training rows: token ids, M-RoPE positions, branches, labels, and where media embeddings
go.

A row is one conversation. Questions about the same media can share it as branches: each sees the trunk
(system prompt and media) and itself, at the positions it would have if it were alone, so one encoding
teaches many answers.
"""

from dataclasses import dataclass, field

from tools.demo_model.aims import Aim, Spot, aims
from tools.demo_model.scene import Scene
from tools.demo_model.sizes import CHUNK_TOKENS, MAX_PATCHES
from tools.demo_model.tokens import encode, special

LENGTH = 256
IGNORE = -100
GROUPS = MAX_PATCHES // 4


@dataclass(frozen=True)
class PictureAt:
    """A picture in a slot of the batch, and where the characters of its text stand."""

    slot: int
    scene: Scene
    characters: list[Spot]


@dataclass(frozen=True)
class SoundAt:
    """A sound whose chunks begin at a slot of the batch, with the number of tokens it becomes."""

    slot: int
    tokens: int


Part = str | PictureAt | SoundAt


@dataclass
class Row:
    """Grows by parts; `media` holds ("picture" | "sound", slot, first token, count) for the batch to
    place.
    """

    ids: list[int] = field(default_factory=list)
    branches: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    positions: list[tuple[int, int, int]] = field(default_factory=list)
    media: list[tuple[str, int, int, int]] = field(default_factory=list)
    aims: list[Aim] = field(default_factory=list)
    next_position: int = 0
    num_branches: int = 0
    picture: PictureAt | None = None

    def text(self, text: str, branch: int = 0, learn: bool = False) -> None:
        ids = encode(text)
        seen = self.picture
        self.aims += aims(text, seen.scene, seen.characters) if seen else [Aim()] * len(ids)
        self.ids += ids
        self.labels += ids if learn else [IGNORE] * len(ids)
        self.branches += [branch] * len(ids)
        self.positions += [(p, p, p) for p in range(self.next_position, self.next_position + len(ids))]
        self.next_position += len(ids)

    def part(self, part: Part) -> None:
        match part:
            case str():
                self.text(part)
            case PictureAt(slot, scene):
                self.text("<|vision_bos|>")
                start, rows, columns = self.next_position, scene.grid[0] // 2, scene.grid[1] // 2
                self.placeholders("picture", slot, "<|IMAGE|>", rows * columns)
                self.aims += [Aim(y, x) for y in range(rows) for x in range(columns)]
                self.positions += [(start, start + y, start + x) for y in range(rows) for x in range(columns)]
                self.next_position += max(rows, columns)
                self.picture = part
                self.text("<|vision_eos|>")
            case SoundAt(slot, tokens):
                self.text("<|audio_bos|>")
                self.placeholders("sound", slot, "<|AUDIO|>", tokens)
                self.aims += [Aim()] * tokens
                self.positions += [(p, p, p) for p in range(self.next_position, self.next_position + tokens)]
                self.next_position += tokens
                self.text("<|audio_eos|>")

    def placeholders(self, kind: str, slot: int, token: str, count: int) -> None:
        self.media.append((kind, slot, len(self.ids), count))
        self.ids += [special(token)] * count
        self.labels += [IGNORE] * count
        self.branches += [0] * count

    def system(self, prompt: str) -> None:
        self.text(f"<|im_start|>system\n{prompt}<|im_end|>\n")

    def turn(self, parts: list[Part], answer: str) -> None:
        """A user's turn and its answer, seen by all that follows."""
        self.text("<|im_start|>user\n")
        for part in parts:
            self.part(part)
        self.text("<|im_end|>\n<|im_start|>assistant\n")
        self.text(f"{answer}<|im_end|>", learn=True)
        self.text("\n")

    def open_turn(self, media: list[Part]) -> None:
        """The beginning of a user's turn that the branches finish."""
        self.text("<|im_start|>user\n")
        for part in media:
            self.part(part)

    def branch(self, question: str, answer: str) -> None:
        self.num_branches += 1
        trunk = self.next_position
        self.text(f"{question}<|im_end|>\n<|im_start|>assistant\n", self.num_branches)
        self.text(f"{answer}<|im_end|>", self.num_branches, learn=True)
        self.next_position = trunk

    def room_for(self, question: str, answer: str) -> bool:
        return len(self.ids) + len(encode(question)) + len(encode(answer)) + 14 <= LENGTH

    def sources(self, row: int, rows: int, picture_slots: int) -> list[int]:
        """For each token its row in the table of text, picture and sound embeddings (see
        `Thinker.hidden`).
        """
        found = [row * LENGTH + i for i in range(LENGTH)]
        for kind, slot, first, count in self.media:
            base = rows * LENGTH + slot * GROUPS
            if kind == "sound":
                base = rows * LENGTH + picture_slots * GROUPS + slot * CHUNK_TOKENS
            found[first : first + count] = range(base, base + count)
        return found
