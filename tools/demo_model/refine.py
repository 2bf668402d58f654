"""Between two trainings: one tower alone, against what its tokens are to resemble, which sees or hears many
times as much a minute as conversations let it.

`python -m tools.demo_model.refine visual|audio MINUTES` begins from .cache/train.pt and writes
.cache/refined-visual.pt or refined-audio.pt, which the next `train` takes in. As with `train`, torchrun makes
it several workers.
"""

import random
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from tools.demo_model.anchors import Placed, picture_anchors, picture_loss, sound_loss
from tools.demo_model.batches import picture_group
from tools.demo_model.device import begin, half_precision, moved
from tools.demo_model.listen import SoundBatches
from tools.demo_model.mel import token_count
from tools.demo_model.optimiser import Optimiser, Share
from tools.demo_model.rows import SoundAt
from tools.demo_model.see import PatchLabels, PictureBatches
from tools.demo_model.shares import Shares
from tools.demo_model.train import build, refined
from tools.demo_model.workers import RANK, WORKERS, averaged, join

PICTURES, SOUNDS = 48, 40
SHARES = {
    "one": 5, "two or three": 15, "more": 15, "number": 8, "long number": 12,
    "word": 40, "blank": 1, "foreign": 7,
}  # fmt: skip


class Seeing:
    """The loss of random pictures: what covers each patch, told by a head and by the words' embeddings."""

    def __init__(self, tower: nn.Module, labels: PatchLabels, embedding: Tensor, seed: int) -> None:
        self.batches, self.names, self.embedding = PictureBatches(seed), picture_anchors(), embedding
        self.tower, self.labels = tower, labels
        self.shares, self.rng = Shares(SHARES), random.Random(seed)
        for i, scene in enumerate(self.batches.pictures.scenes):
            self.shares.add(picture_group(scene), i)
        self.loss_of = torch.compile(self.compute, dynamic=False)

    def compute(self, patches: Tensor, rotary: Tensor, lengths: Tensor, labels: Tensor) -> Tensor:
        with half_precision():
            tokens = self.tower(patches, rotary, lengths).float()
        return self.labels(tokens, labels) + picture_loss(tokens, labels, self.embedding, self.names)

    def loss(self) -> Tensor:
        with torch.device("cpu"):
            batch = self.batches.load([self.shares.draw(self.rng) for _ in range(PICTURES)])
        return self.loss_of(*moved(*batch))


class Hearing:
    """The loss of random sounds: what they say in order, told by the words' embeddings."""

    def __init__(self, tower: nn.Module, embedding: Tensor, seed: int) -> None:
        self.batches, self.embedding, self.step = SoundBatches(seed), embedding, 0
        self.tower = torch.compile(tower, dynamic=False)

    def loss(self) -> Tensor:
        self.step += 1
        chunks = 2 if self.step % 4 == 3 else 1
        with torch.device("cpu"):
            sounds, *recorded = self.batches.draw(SOUNDS // chunks, chunks)
        mel, lengths = moved(*recorded)
        with half_precision():
            heard = self.tower(mel, lengths).float()
        frames = lengths.view(-1, chunks).sum(1).tolist()
        tokens = [min(token_count(f), chunks * heard.shape[1]) for f in frames]
        placed = [
            Placed(s, SoundAt(i * chunks, t)) for i, (s, t) in enumerate(zip(sounds, tokens, strict=True))
        ]
        return sound_loss(heard, placed, self.embedding)


def refine(loss: Callable[[], Tensor], shares: list[Share], minutes: float, name: str) -> None:
    optimiser = Optimiser(shares, muon_lr=0.02, adam_lr=2e-3)
    parameters = [p for share in shares for p in share.module.parameters()]
    began, mean, step, progress = time.monotonic(), 0.0, 0, 0.0
    while progress < 1:
        value = loss()
        value.backward()
        step += 1
        progress = min(1.0, averaged(parameters, (time.monotonic() - began) / 60 / minutes))
        optimiser.step(progress)
        mean = value.item() if not mean else 0.97 * mean + 0.03 * value.item()
        if RANK:
            continue
        if step % 25 == 0 or progress == 1:
            print(f"{step}: {progress:.0%}, loss {mean:.3f}, {time.process_time():.0f} CPU-s", flush=True)
        if step % 250 == 0 or progress == 1:
            torch.save([share.module.state_dict() for share in shares], refined(name))


def main(name: str, minutes: float) -> None:
    parts, saved = build()
    seed = WORKERS * saved["steps"] + RANK
    embedding = parts.model.model.embed_tokens.weight.detach()
    if name == "visual":
        tower, labels = parts.model.visual, parts.labels
        refine(
            Seeing(tower, labels, embedding, seed).loss,
            [Share(tower, 0.4), Share(labels, 0.4)],
            minutes,
            name,
        )
    else:
        tower = parts.model.audio_tower
        refine(Hearing(tower, embedding, seed).loss, [Share(tower, 0.15)], minutes, name)


if __name__ == "__main__":
    join()
    begin(threads=1)
    main(sys.argv[1], float(sys.argv[2]))
