"""Stage 1: the vision tower learns to name what covers every patch, and in which colour.

`python -m tools.demo_model.see STEPS` continues from .cache/see.pt if it is there.
"""

import sys
import time

import numpy as np
import torch
from torch import Tensor, nn

from tools.demo_model.device import begin, half_precision, moved
from tools.demo_model.draw import CLASSES, TINTS
from tools.demo_model.optimiser import Optimiser, Share
from tools.demo_model.pictures import CACHE, Pictures
from tools.demo_model.sizes import LANGUAGE
from tools.demo_model.vision import VisionTower, rotary_table

BATCH = 48


class PatchLabels(nn.Module):
    """From each merged token, the class and colour of its four patches."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(LANGUAGE["hidden"], 4 * (len(CLASSES) + len(TINTS)))

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """tokens: (pictures, groups, size); labels: (pictures, patches, 2), 255 where there is no patch."""
        logits = self.head(tokens).float().unflatten(-1, (4, -1)).flatten(0, 2)
        target = labels.flatten(0, 1).long()
        target = target.masked_fill(target == 255, -100)
        kind, tint = logits.split((len(CLASSES), len(TINTS)), -1)
        weight = torch.ones(len(CLASSES))
        weight[0] = 0.3
        shape_loss = nn.functional.cross_entropy(kind, target[:, 0], weight=weight)
        return shape_loss + 0.5 * nn.functional.cross_entropy(tint, target[:, 1])


class PictureBatches:
    """Random batches of pictures as tensors, with the rotary tables of their grids."""

    def __init__(self, seed: int) -> None:
        self.pictures = Pictures()
        self.random = np.random.default_rng(seed)
        self.tables = {grid: rotary_table(grid) for grid in {s.grid for s in self.pictures.scenes}}

    def load(self, chosen: list[int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """patches (in [-1, 1]), rotary tables, lengths, labels."""
        grids = [self.pictures.scenes[i].grid for i in chosen]
        patches = torch.from_numpy(np.stack([self.pictures.patches(i) for i in chosen]))
        labels = torch.from_numpy(np.stack([self.pictures.labels(i) for i in chosen]))
        lengths = torch.tensor([h * w for h, w in grids])
        return patches.float() / 127.5 - 1, torch.stack([self.tables[g] for g in grids]), lengths, labels

    def draw(self, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.load(self.random.integers(len(self.pictures), size=count).tolist())


def main(steps: int) -> None:
    torch.manual_seed(0)
    tower, labels_of = VisionTower(), PatchLabels()
    saved = CACHE / "see.pt"
    if saved.exists():
        tower.load_state_dict(torch.load(saved)["tower"])
        labels_of.load_state_dict(torch.load(saved)["labels"])
    optimiser = Optimiser([Share(tower, 1.0), Share(labels_of, 1.0)], muon_lr=0.02, adam_lr=2e-3)
    batches = PictureBatches(steps)

    @torch.compile(dynamic=False)
    def loss_of(patches: Tensor, rotary: Tensor, lengths: Tensor, labels: Tensor) -> Tensor:
        with half_precision():
            tokens = tower(patches, rotary, lengths)
        return labels_of(tokens.float(), labels)

    started, mean = time.process_time(), 0.0
    for step in range(steps):
        with torch.device("cpu"):
            batch = batches.draw(BATCH)
        loss = loss_of(*moved(*batch))
        loss.backward()
        optimiser.step(step / steps)
        mean = loss.item() if not mean else 0.95 * mean + 0.05 * loss.item()
        if step % 25 == 24 or step + 1 == steps:
            print(f"{step + 1}/{steps} loss {mean:.3f} cpu {time.process_time() - started:.0f} s", flush=True)
            torch.save({"tower": tower.state_dict(), "labels": labels_of.state_dict()}, saved)


if __name__ == "__main__":
    begin(threads=1)
    main(int(sys.argv[1]))
