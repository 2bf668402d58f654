"""Stage 3: towers and language model together, on conversations.

`python -m tools.demo_model.train STEPS [RATE [MINUTES]]` continues from .cache/train.pt if it is there,
else starts from the towers of stages 1 and 2, and ends after so many steps or minutes, whichever comes
first. Writes .cache/train.pt every 100 steps. RATE scales the learning rates. An interrupted training goes on
along its learning-rate curve, with its optimisers as they were; a finished one begins a new curve.
"""

import math
import os
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from tools.demo_model.anchors import Placed, picture_anchors, picture_loss, sound_loss
from tools.demo_model.batches import Batch, Batches
from tools.demo_model.device import DEVICE, begin, half_precision, moved
from tools.demo_model.hearing import AudioTower
from tools.demo_model.language import Thinker
from tools.demo_model.optimiser import Optimiser, Share
from tools.demo_model.pictures import CACHE
from tools.demo_model.pointers import Pointers
from tools.demo_model.rows import IGNORE
from tools.demo_model.see import PatchLabels
from tools.demo_model.tokens import SIZE
from tools.demo_model.vision import VisionTower
from tools.demo_model.workers import RANK, WORKERS, averaged, join

ANSWER_TOKENS = 1152
PATCH_LOSS = 0.2
POINTER_LOSS = 0.05
SOUND_LOSS = 0.2


class Parts(nn.Module):
    """What is trained: the model, and the heads of the auxiliary losses."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Thinker(SIZE, VisionTower(), AudioTower())
        self.labels, self.pointers = PatchLabels(), Pointers()

    def forward(self, names: tuple[Tensor, Tensor], batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Cross-entropy of the answers, that of what words point at, the sum of all losses, and the audio
        tower's output.
        """
        model = self.model
        with half_precision():
            seen = model.visual(batch.patches, batch.rotary, batch.lengths)
            heard = model.audio_tower(batch.mel, batch.frames)
            hidden, layers = model.hidden(
                batch.ids, batch.source, seen, heard, batch.positions, batch.branches
            )
            logits = model.lm_head(hidden.flatten(0, 1)[batch.labels[:, 0]])
        loss = nn.functional.cross_entropy(logits.float(), batch.labels[:, 1], ignore_index=IGNORE)
        embedding = model.model.embed_tokens.weight.detach()
        patches = self.labels(seen.float(), batch.patch_labels)
        anchors = picture_loss(seen.float(), batch.patch_labels, embedding, names)
        pointed = self.pointers(layers, batch.aims)
        return loss, pointed, loss + PATCH_LOSS * (patches + anchors) + POINTER_LOSS * pointed, heard.float()


def build() -> tuple[Parts, dict]:
    """What is trained, and what was saved with it: steps, progress, optimisers."""
    torch.manual_seed(0)
    parts, saved = Parts(), CACHE / "train.pt"
    if saved.exists():
        state = torch.load(saved, map_location=DEVICE)
        for name, part in parts.named_children():
            part.load_state_dict(state.pop(name))
        take_refined("visual", parts.model.visual, parts.labels)
        take_refined("audio", parts.model.audio_tower)
        return parts, state
    seen, heard = (torch.load(CACHE / name, map_location=DEVICE) for name in ("see.pt", "listen.pt"))
    parts.model.visual.load_state_dict(seen["tower"])
    parts.labels.load_state_dict(seen["labels"])
    parts.model.audio_tower.load_state_dict(heard["tower"])
    return parts, {"steps": 0}


def refined(name: str) -> Path:
    """What `refine` writes."""
    return CACHE / f"refined-{name}.pt"


def take_refined(name: str, *parts: nn.Module) -> None:
    if refined(name).exists():
        for part, state in zip(parts, torch.load(refined(name), map_location=DEVICE), strict=True):
            part.load_state_dict(state)


def save(parts: Parts, rest: dict) -> None:
    states = {name: part.state_dict() for name, part in parts.named_children()}
    torch.save({**states, **rest}, CACHE / "train.part")
    (CACHE / "train.part").rename(CACHE / "train.pt")
    for name in ("visual", "audio"):
        refined(name).unlink(missing_ok=True)


def with_answer_places(batch: Batch) -> Batch:
    """Labels as (ANSWER_TOKENS, 2): where in the flattened rows a token is predicted, and which token
    it is.
    """
    shifted = torch.nn.functional.pad(batch.labels[:, 1:], (0, 1), value=IGNORE).flatten()
    places = (shifted >= 0).nonzero()[:ANSWER_TOKENS, 0]
    pairs = torch.stack((places, shifted[places]), 1)
    padding = torch.tensor([0, IGNORE]).expand(ANSWER_TOKENS - len(pairs), 2)
    return batch._replace(labels=torch.cat((pairs, padding)))


def next_batch(batches: Batches) -> Batch:
    with torch.device("cpu"):
        return Batch(*moved(*with_answer_places(batches.draw())))


def main(steps: int, rate: float, minutes: float) -> None:
    parts, saved = build()
    model = parts.model
    done, before = saved["steps"], saved.get("progress", 1.0) % 1
    batches = Batches(seed=WORKERS * done + RANK + 1)
    towers = [Share(model.visual, 0.4 * rate), Share(model.audio_tower.proj, rate)]
    whisper = [part for name, part in model.audio_tower.named_children() if name != "proj"]
    towers += [Share(part, 0.2 * rate, muon=False) for part in whisper]
    rest = [Share(part, rate) for part in (model.model, model.lm_head, parts.labels, parts.pointers)]
    optimiser = Optimiser(towers + rest, muon_lr=0.02, adam_lr=3e-3)
    if before:
        optimiser.load_state_dict(saved["optimiser"])
    compiled, names = torch.compile(parts, dynamic=False), picture_anchors()
    parameters = list(parts.parameters())
    began, mean, progress, step = time.monotonic(), 0.0, 0.0, 0
    while progress < 1:
        loss, pointed, total, heard = compiled(names, next_batch(batches))
        placed = [Placed(*pair) for pair in batches.placed]
        spelt = sound_loss(heard, placed, model.model.embed_tokens.weight.detach())
        (total + SOUND_LOSS * spelt).backward()
        step += 1
        share = max(step / steps, (time.monotonic() - began) / 60 / minutes)
        progress = min(averaged(parameters, before + (1 - before) * share), 1.0)
        optimiser.step(progress)
        mean = loss.item() if not mean else 0.95 * mean + 0.05 * loss.item()
        if RANK:
            continue
        if step % 20 == 0 or progress >= 1:
            told = f"loss {mean:.4f}, pointing {pointed:.2f}, all {total:.3f}, spelling {spelt:.3f}"
            print(f"{step}: {progress:.0%}, {told}, {time.process_time():.0f} CPU-s", flush=True)
        if step % 100 == 0 or progress >= 1:
            save(parts, {"steps": done + step, "progress": progress, "optimiser": optimiser.state_dict()})


if __name__ == "__main__":
    join()
    begin(threads=int(os.environ.get("OMP_NUM_THREADS", "1")))
    given = [float(value) for value in sys.argv[1:]]
    main(int(given[0]), *(given[1:] + [1.0, math.inf][len(given) - 1 :]))
