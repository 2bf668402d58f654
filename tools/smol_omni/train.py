"""Trains the listener: `python -m tools.smol_omni.train STEPS`; goes on from .cache/listener.pt.

Connectionist temporal classification (Graves et al., 2006) over the language model's own tokens, with its own
embedding as the output matrix: the language model itself is not needed.
"""

import pickle
import random
import sys
import time

import numpy as np
import torch
from torch import Tensor, nn

from tools.demo_model.optimiser import Optimiser, Share
from tools.smol_omni import CACHE
from tools.smol_omni.network import Language, Listener, log_shares, read_language

BATCH, POOL = 32, 8  # sounds in a step; how many batches are sorted by length together
OTHERS = 1200  # tokens beside those that were said, drawn anew for each step
MUON, ADAM = 0.01, 1e-3
STATE = CACHE / "listener.pt"
Sample = tuple[list[int], np.ndarray]


def load_samples(language: Language) -> list[Sample]:
    shards = (pickle.loads(path.read_bytes()) for path in sorted(CACHE.glob("speech-???.pkl")))
    return [(language.tokens.encode(text).ids, heard) for shard in shards for text, heard in shard]


def batches(samples: list[Sample], rng: random.Random):
    """Endless; each batch is of similar lengths."""
    while True:
        order = rng.sample(range(len(samples)), len(samples))
        for first in range(0, len(order) - BATCH * POOL + 1, BATCH * POOL):
            pool = sorted(order[first : first + BATCH * POOL], key=lambda i: len(samples[i][1]))
            for at in rng.sample(range(0, BATCH * POOL, BATCH), POOL):
                yield [samples[i] for i in pool[at : at + BATCH]]


def padded(batch: list[Sample], rng: random.Random) -> tuple[Tensor, Tensor]:
    """Positions, some of them lost and all of them noisy, and how many there are."""
    lengths = torch.tensor([len(heard) for _, heard in batch])
    heard = nn.utils.rnn.pad_sequence([torch.from_numpy(h).float() for _, h in batch], batch_first=True)
    heard += 0.2 * heard.std() * torch.randn_like(heard)
    for row in heard:
        for _ in range(rng.randrange(3)):
            begin = rng.randrange(row.shape[0])
            row[begin : begin + rng.randrange(1, 8)] = 0
    return heard, lengths


def loss_of(listener: Listener, language: Language, batch: list[Sample], common: list[int], rng) -> Tensor:
    said = sorted({token for tokens, _ in batch for token in tokens} - {language.nothing})
    others = [token for token in rng.sample(common, min(OTHERS, len(common))) if token not in set(said)]
    classes = [language.nothing, *said, *others]
    at = {token: index for index, token in enumerate(classes)}
    heard, lengths = padded(batch, rng)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = listener(heard, lengths)
    shares = log_shares(outputs.float(), language.rows[classes])
    targets = [torch.tensor([at[token] for token in tokens]) for tokens, _ in batch]
    sizes = torch.tensor([len(target) for target in targets])
    return nn.functional.ctc_loss(
        shares.transpose(0, 1), torch.cat(targets), lengths // 2, sizes, zero_infinity=True
    )


def main(steps: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    language, rng = read_language(), random.Random(0)
    listener = Listener(language)
    optimiser = Optimiser([Share(listener, 1.0)], MUON, ADAM)
    begun = 0
    if STATE.exists():
        state = torch.load(STATE)
        listener.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        begun = state["step"]
        rng.seed(begun)
    samples = load_samples(language)
    common = sorted({token for tokens, _ in samples for token in tokens} - {language.nothing})
    print(f"{len(samples)} sounds, {len(common)} tokens", flush=True)
    mean, started = 0.0, time.process_time()
    for step, batch in zip(range(begun, steps), batches(samples, rng), strict=False):
        loss = loss_of(listener, language, batch, common, rng)
        loss.backward()
        nn.utils.clip_grad_norm_(listener.parameters(), 1.0)
        optimiser.step(step / steps)
        mean += (loss.item() - mean) * max(0.05, 1 / (step - begun + 1))
        if step % 10 == 9:
            print(f"{step + 1} loss {mean:.3f} {time.process_time() - started:.0f} s", flush=True)
        if step % 100 == 99 or step == steps - 1:
            saved = {"model": listener.state_dict(), "optimiser": optimiser.state_dict(), "step": step + 1}
            torch.save(saved, STATE)


if __name__ == "__main__":
    main(int(sys.argv[1]))
