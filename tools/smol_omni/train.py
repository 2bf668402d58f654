"""The first stage, hearing: `python -m tools.smol_omni.train STEPS`.

It goes on from .cache/listener.pt, or else from what ships.

Connectionist temporal classification (Graves et al., 2006) over the language model's own tokens, with its own
embedding as the output matrix: the language model itself is not needed.
"""

import random
import sys
import time
from typing import NamedTuple

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor, nn

from engine.allocator import keep_freed_memory
from models.smol_omni.adapters import FILE
from tools.demo_model.optimiser import Optimiser, Share
from tools.smol_omni.names import listened
from tools.smol_omni.network import HIDDEN, Language, Listener, nearness, read_language
from tools.smol_omni.speech import load_speech
from tools.smol_omni.stages import HEARING

BATCH, POOL = 32, 8  # sounds in a step; how many batches are sorted by length together
OTHERS = 800  # tokens of other sounds, and as many of all, beside those that were said
MUON, ADAM = 0.02, 1e-3
GUIDED = 120  # steps
WINDOW = 0.1  # of the sound, to either side
PULL = 0.1  # towards the nearest row: tokens are told apart without, but the language model reads all of it
RELUCTANCE = 1.0  # added to what nothing scores in training, so that it scores less afterwards
Sample = tuple[list[int], np.ndarray]


def load_samples(language: Language) -> list[Sample]:
    return [(language.tokens.encode(text).ids, heard) for text, heard in load_speech()]


def tokens_of(samples: list[Sample], language: Language) -> list[int]:
    """All that are ever said."""
    return sorted({token for tokens, _ in samples for token in tokens} - {language.nothing})


def batches(samples: list[Sample], rng: random.Random, size: int = BATCH):
    """Endless; each batch is of similar lengths."""
    while True:
        order = rng.sample(range(len(samples)), len(samples))
        for first in range(0, len(order) - size * POOL + 1, size * POOL):
            pool = sorted(order[first : first + size * POOL], key=lambda i: len(samples[i][1]))
            for at in rng.sample(range(0, size * POOL, size), POOL):
                yield [samples[i] for i in pool[at : at + size]]


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


class Heard(NamedTuple):
    """What the listener made of a batch: (sounds, positions, width), padded; how many positions each has;
    what they may stand for, nothing first, and how near they are to each; by CTC, how far from what was said.
    """

    outputs: Tensor
    lengths: Tensor
    classes: list[int]
    near: Tensor
    loss: Tensor

    @property
    def there(self) -> Tensor:
        """(sounds, positions): which are no padding."""
        return torch.arange(self.outputs.shape[1]) < self.lengths[:, None]


def listen(
    listener: Listener, language: Language, batch: list[Sample], common: list[int], rng: random.Random
) -> Heard:
    said = sorted({token for tokens, _ in batch for token in tokens} - {language.nothing})
    drawn = rng.sample(common, min(OTHERS, len(common))) + rng.sample(range(len(language.rows)), OTHERS)
    others = sorted(set(drawn) - {*said, language.nothing})
    classes = [language.nothing, *said, *others]
    at = {token: index for index, token in enumerate(classes)}
    heard, lengths = padded(batch, rng)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = listener(heard, lengths)
    outputs, lengths = outputs.float(), lengths // 2
    near = nearness(outputs, language.rows[classes])
    targets = torch.tensor([at[token] for tokens, _ in batch for token in tokens])
    sizes = torch.tensor([len(tokens) for tokens, _ in batch])
    shares = reluctant(near).log_softmax(-1).transpose(0, 1)
    loss = nn.functional.ctc_loss(shares, targets, lengths, sizes, zero_infinity=True)
    return Heard(outputs, lengths, classes, near, loss)


def reluctant(near: Tensor) -> Tensor:
    return torch.cat((near[..., :1] + RELUCTANCE, near[..., 1:]), -1)


def loss_of(heard: Heard, language: Language, batch: list[Sample], guided: float) -> Tensor:
    best, there = heard.near.argmax(-1), heard.there
    squares = (heard.outputs - language.rows[heard.classes][best]).pow(2).sum(-1)
    loss = heard.loss + PULL * pull_of(squares[there], best[there] == 0)
    if guided:
        at = {token: index for index, token in enumerate(heard.classes)}
        targets = [torch.tensor([at[token] for token in tokens]) for tokens, _ in batch]
        shares = reluctant(heard.near).log_softmax(-1)
        pairs = zip(shares, targets, heard.lengths.tolist(), strict=True)
        loss = loss + guided * torch.stack([guide(row[:size], target) for row, target, size in pairs]).mean()
    return loss


def pull_of(squares: Tensor, nothing: Tensor) -> Tensor:
    """The mean square of words and that of nothing, which is far more frequent and easier."""
    halves = (squares[nothing], squares[~nothing])
    return torch.stack([half.mean() for half in halves if len(half)]).sum()


def guide(shares: Tensor, said: Tensor) -> Tensor:
    """How unlikely, at each position, all tokens are that may be said about then.

    The text is spread evenly over the sound for it. It gets the training over its first hundred steps, in
    which everything would be taken for nothing.
    """
    positions = (torch.arange(len(shares)) + 0.5) / len(shares)
    middles = (torch.arange(len(said)) + 0.5) / len(said)
    near = (positions[:, None] - middles).abs() < WINDOW + 0.5 / len(said)
    return -shares[:, said].masked_fill(~near, HIDDEN).logsumexp(1).mean()


def begin() -> None:
    """What every stage starts with."""
    keep_freed_memory()
    torch.set_num_threads(1)
    torch.manual_seed(0)


def go_on(listener: Listener) -> None:
    """From the weights that ship."""
    with safe_open(FILE, "pt") as file:
        shipped = {listened(name): file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
    listener.load_state_dict(shipped)


def main(steps: int) -> None:
    begin()
    language, rng = read_language(), random.Random(0)
    listener = Listener(language)
    optimiser = Optimiser([Share(listener, 1.0)], MUON, ADAM)
    begun = 0
    if HEARING.exists():
        state = torch.load(HEARING)
        listener.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        begun = state["step"]
        rng.seed(begun)
    else:
        go_on(listener)
    samples = load_samples(language)
    common = tokens_of(samples, language)
    print(f"{len(samples)} sounds, {len(common)} tokens", flush=True)
    mean, started = 0.0, time.process_time()
    for step, batch in zip(range(begun, steps), batches(samples, rng), strict=False):
        heard = listen(listener, language, batch, common, rng)
        loss = loss_of(heard, language, batch, 0.5 * max(0, 1 - step / GUIDED))
        loss.backward()
        nn.utils.clip_grad_norm_(listener.parameters(), 1.0)
        optimiser.step(step / steps)
        mean += (loss.item() - mean) * max(0.05, 1 / (step - begun + 1))
        if step % 10 == 9:
            print(f"{step + 1} loss {mean:.3f} {time.process_time() - started:.0f} s", flush=True)
        if step % 100 == 99 or step == steps - 1:
            saved = {"model": listener.state_dict(), "optimiser": optimiser.state_dict(), "step": step + 1}
            torch.save(saved, HEARING)


if __name__ == "__main__":
    main(int(sys.argv[1]))
