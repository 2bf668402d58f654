"""Stage 3: towers and language model together, on conversations.

`python -m tools.demo_model.train STEPS [RATE]` continues from .cache/train.pt if it is there, else starts
from the
towers of stages 1 and 2. Writes .cache/train.pt every 100 steps. RATE scales the learning rates.
"""

import sys
import time

import torch
from torch import Tensor, nn

from tools.demo_model.batches import Batch, Batches
from tools.demo_model.hearing import AudioTower
from tools.demo_model.language import Thinker
from tools.demo_model.optimiser import Optimiser
from tools.demo_model.pictures import CACHE
from tools.demo_model.rows import IGNORE
from tools.demo_model.see import PatchLabels
from tools.demo_model.tokens import SIZE
from tools.demo_model.vision import VisionTower

ANSWER_TOKENS = 1920


def build() -> tuple[Thinker, PatchLabels, int]:
    """The model, the auxiliary head, and how many steps they have behind them."""
    torch.manual_seed(0)
    model, labels_of = Thinker(SIZE, VisionTower(), AudioTower()), PatchLabels()
    saved = CACHE / "train.pt"
    if saved.exists():
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        labels_of.load_state_dict(state["labels"])
        return model, labels_of, state["steps"]
    seen, heard = torch.load(CACHE / "see.pt"), torch.load(CACHE / "listen.pt")
    model.visual.load_state_dict(seen["tower"])
    labels_of.load_state_dict(seen["labels"])
    model.audio_tower.load_state_dict(heard["tower"])
    return model, labels_of, 0


def answer_loss(model: Thinker, labels_of: nn.Module, share: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Cross-entropy of the answers, and the same plus the auxiliary loss on patches."""
    with torch.autocast("cpu", torch.bfloat16):
        seen = model.visual(batch.patches, batch.rotary, batch.lengths)
        heard = model.audio_tower(batch.mel, batch.frames)
        hidden = model.hidden(batch.ids, batch.source, seen, heard, batch.positions, batch.branches)
        logits = model.lm_head(hidden.flatten(0, 1)[batch.labels[:, 0]])
    loss = nn.functional.cross_entropy(logits.float(), batch.labels[:, 1], ignore_index=IGNORE)
    return loss, loss + share * labels_of(seen.float(), batch.patch_labels)


def with_answer_places(batch: Batch) -> Batch:
    """Labels as (ANSWER_TOKENS, 2): where in the flattened rows a token is predicted, and which token
    it is.
    """
    shifted = torch.nn.functional.pad(batch.labels[:, 1:], (0, 1), value=IGNORE).flatten()
    places = (shifted >= 0).nonzero()[:ANSWER_TOKENS, 0]
    pairs = torch.stack((places, shifted[places]), 1)
    padding = torch.tensor([0, IGNORE]).expand(ANSWER_TOKENS - len(pairs), 2)
    return batch._replace(labels=torch.cat((pairs, padding)))


def main(steps: int, rate: float) -> None:
    model, labels_of, done = build()
    batches = Batches(seed=done + 1)
    towers = [(model.visual, 0.4 * rate), (model.audio_tower, 0.1 * rate), (labels_of, rate)]
    optimiser = Optimiser([*towers, (model.model, rate), (model.lm_head, rate)], muon_lr=0.02, adam_lr=3e-3)
    compiled = torch.compile(answer_loss, dynamic=False)
    started, mean = time.process_time(), 0.0
    for step in range(steps):
        share = torch.tensor(0.1 + 0.3 * (1 - step / steps) * (done == 0))
        loss, total = compiled(model, labels_of, share, with_answer_places(batches.draw()))
        total.backward()
        optimiser.step(step / steps)
        mean = loss.item() if not mean else 0.95 * mean + 0.05 * loss.item()
        if step % 20 == 19 or step + 1 == steps:
            print(f"{step + 1}/{steps} loss {mean:.4f} cpu {time.process_time() - started:.0f} s", flush=True)
        if step % 100 == 99 or step + 1 == steps:
            state = {"model": model.state_dict(), "labels": labels_of.state_dict(), "steps": done + step + 1}
            torch.save(state, CACHE / "train.part")
            (CACHE / "train.part").rename(CACHE / "train.pt")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 1.0)
