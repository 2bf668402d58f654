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

import torch
from torch import Tensor, nn

from tools.demo_model.anchors import Placed, picture_anchors, picture_loss, sound_loss
from tools.demo_model.batches import Batch, Batches
from tools.demo_model.device import DEVICE, begin, half_precision, moved
from tools.demo_model.hearing import AudioTower
from tools.demo_model.language import Thinker
from tools.demo_model.optimiser import Optimiser, Share
from tools.demo_model.pictures import CACHE
from tools.demo_model.rows import IGNORE
from tools.demo_model.see import PatchLabels
from tools.demo_model.tokens import SIZE
from tools.demo_model.vision import VisionTower
from tools.demo_model.workers import RANK, WORKERS, averaged, join

ANSWER_TOKENS = 1024
PATCH_LOSS = 0.2
SOUND_LOSS = 0.2


def build() -> tuple[Thinker, PatchLabels, dict]:
    """The model, the auxiliary head, and what was saved with them: steps, progress, optimisers."""
    torch.manual_seed(0)
    model, labels_of = Thinker(SIZE, VisionTower(), AudioTower()), PatchLabels()
    saved = CACHE / "train.pt"
    if saved.exists():
        state = torch.load(saved, map_location=DEVICE)
        model.load_state_dict(state.pop("model"))
        labels_of.load_state_dict(state.pop("labels"))
        return model, labels_of, state
    seen, heard = (torch.load(CACHE / name, map_location=DEVICE) for name in ("see.pt", "listen.pt"))
    model.visual.load_state_dict(seen["tower"])
    labels_of.load_state_dict(seen["labels"])
    model.audio_tower.load_state_dict(heard["tower"])
    return model, labels_of, {"steps": 0}


def save(model: Thinker, labels_of: PatchLabels, rest: dict) -> None:
    torch.save({"model": model.state_dict(), "labels": labels_of.state_dict(), **rest}, CACHE / "train.part")
    (CACHE / "train.part").rename(CACHE / "train.pt")


def answer_loss(
    model: Thinker, labels_of: nn.Module, names: tuple[Tensor, Tensor], batch: Batch
) -> tuple[Tensor, Tensor, Tensor]:
    """Cross-entropy of the answers, the same plus the losses on patches, and the audio tower's output."""
    with half_precision():
        seen = model.visual(batch.patches, batch.rotary, batch.lengths)
        heard = model.audio_tower(batch.mel, batch.frames)
        hidden = model.hidden(batch.ids, batch.source, seen, heard, batch.positions, batch.branches)
        logits = model.lm_head(hidden.flatten(0, 1)[batch.labels[:, 0]])
    loss = nn.functional.cross_entropy(logits.float(), batch.labels[:, 1], ignore_index=IGNORE)
    patches = labels_of(seen.float(), batch.patch_labels)
    anchors = picture_loss(seen.float(), batch.patch_labels, model.model.embed_tokens.weight.detach(), names)
    return loss, loss + PATCH_LOSS * (patches + anchors), heard.float()


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
    model, labels_of, saved = build()
    done, before = saved["steps"], saved.get("progress", 1.0) % 1
    batches = Batches(seed=WORKERS * done + RANK + 1)
    towers = [Share(model.visual, 0.4 * rate), Share(model.audio_tower.proj, rate)]
    whisper = [part for name, part in model.audio_tower.named_children() if name != "proj"]
    towers += [Share(part, 0.1 * rate, muon=False) for part in whisper]
    language = [Share(model.model, rate), Share(model.lm_head, rate), Share(labels_of, rate)]
    optimiser = Optimiser(towers + language, muon_lr=0.02, adam_lr=3e-3)
    if before:
        optimiser.load_state_dict(saved["optimiser"])
    compiled, names = torch.compile(answer_loss, dynamic=False), picture_anchors()
    parameters = [p for part in (model, labels_of) for p in part.parameters()]
    began, mean, progress, step = time.monotonic(), 0.0, 0.0, 0
    while progress < 1:
        loss, total, heard = compiled(model, labels_of, names, next_batch(batches))
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
            parts = f"loss {mean:.4f}, with patches {total:.3f}, spelling {spelt:.3f}"
            print(f"{step}: {progress:.0%}, {parts}, {time.process_time():.0f} CPU-s", flush=True)
        if step % 100 == 0 or progress >= 1:
            rest = {"steps": done + step, "progress": progress, "optimiser": optimiser.state_dict()}
            save(model, labels_of, rest)


if __name__ == "__main__":
    join()
    begin(threads=int(os.environ.get("OMP_NUM_THREADS", "1")))
    given = [float(value) for value in sys.argv[1:]]
    main(int(given[0]), *(given[1:] + [1.0, math.inf][len(given) - 1 :]))
