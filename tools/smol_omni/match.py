"""The second stage: what is heard is read as if it were written.

`python -m tools.smol_omni.match STEPS` goes on from the first stage's listener. The outputs need not be the
rows of the embedding that they stand for: they have to do the same in the language model. So its first layers
read both, the outputs and the rows nearest to them, and what they make of the two is to differ little.
"""

import random
import sys
import time

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from tools.demo_model.optimiser import Optimiser, Share
from tools.smol_omni.network import Language, Listener, read_language
from tools.smol_omni.speaker import read_speaker, states
from tools.smol_omni.stages import HEARING, MATCHED
from tools.smol_omni.train import ADAM, MUON, Heard, batches, begin, listen, load_samples, tokens_of

BATCH, LAYERS, RATE = 24, 4, 0.3
WEIGHT = 3.0  # of the difference, beside the loss of the first stage


def difference(
    speaker: LlamaForCausalLM, language: Language, heard: Heard, opening: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean square, of states of unit size, at words and at nothing."""
    best, there = heard.near.argmax(-1), heard.there
    rows = language.rows[heard.classes][best]
    with torch.no_grad():
        meant = unit(states(speaker, [torch.cat((opening, row)) for row in rows]))
    read = unit(states(speaker, [torch.cat((opening, output)) for output in heard.outputs]))
    squares = (read - meant).pow(2).mean(-1)[:, len(opening) :]
    words, nothing = there & (best != 0), there & (best == 0)
    return mean_at(squares, words), mean_at(squares, nothing)


def mean_at(values: Tensor, places: Tensor) -> Tensor:
    return (values * places).sum() / places.sum().clamp(min=1)


def unit(hidden: Tensor) -> Tensor:
    hidden = hidden.float()
    return hidden / hidden.pow(2).mean(-1, keepdim=True).sqrt()


def main(steps: int) -> None:
    begin()
    language, rng = read_language(), random.Random(5)
    listener, speaker = Listener(language), read_speaker(LAYERS)
    listener.load_state_dict(torch.load(HEARING)["model"])
    optimiser = Optimiser([Share(listener, RATE)], MUON, ADAM)
    samples = load_samples(language)
    common = tokens_of(samples, language)
    opening = language.rows[language.tokens.encode("<|im_start|>user\n").ids]
    began = time.process_time()
    for step, batch in zip(range(steps), batches(samples, rng, BATCH), strict=False):
        heard = listen(listener, language, batch, common, rng)
        words, nothing = difference(speaker, language, heard, opening)
        (heard.loss + WEIGHT * (words + nothing)).backward()
        nn.utils.clip_grad_norm_(listener.parameters(), 1.0)
        optimiser.step(step / steps)
        if step % 10 == 9:
            told = f"{step + 1} hearing {heard.loss:.3f}, words {words:.3f}, nothing {nothing:.3f}"
            print(f"{told}, {time.process_time() - began:.0f} s", flush=True)
        if step % 50 == 49 or step == steps - 1:
            torch.save({"model": listener.state_dict(), "step": step + 1}, MATCHED)


if __name__ == "__main__":
    main(int(sys.argv[1]))
