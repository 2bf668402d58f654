"""The third stage: what is asked aloud is answered as if it were asked in writing.

`python -m tools.smol_omni.teach STEPS` goes on from its own .cache/taught.pt, or else from the second stage.
The language model answers the written question; given the sound, it is to expect the same words with the same
probabilities (distillation, Hinton et al., 2015), and only the listener learns.
"""

import random
import sys
import time

import numpy as np
import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from tools.demo_model.optimiser import Optimiser, Share
from tools.smol_omni.answers import ANSWERS
from tools.smol_omni.network import Language, Listener, read_language
from tools.smol_omni.speaker import AFTER, BEFORE, read_speaker, states
from tools.smol_omni.speech import load_speech
from tools.smol_omni.stages import MATCHED, TAUGHT
from tools.smol_omni.train import ADAM, MUON, Heard, begin, listen, tokens_of

BATCH, RATE = 8, 0.3
NEIGHBOURS = 4  # a batch is drawn from so many times its size of sounds of about one length
Asked = tuple[str, np.ndarray]


def draw(asked: list[Asked], rng: random.Random) -> list[Asked]:
    """asked: by length."""
    first = rng.randrange(max(1, len(asked) - NEIGHBOURS * BATCH))
    return rng.sample(asked[first : first + NEIGHBOURS * BATCH], BATCH)


def expected(speaker: LlamaForCausalLM, prompts: list[Tensor], answers: list[list[int]]) -> Tensor:
    """(tokens of all answers, vocabulary): logits. prompts: embeddings, the answer's own included."""
    hidden = states(speaker, prompts)
    places = [
        hidden[i, len(prompt) - len(answer) - 1 : len(prompt) - 1]
        for i, (prompt, answer) in enumerate(zip(prompts, answers, strict=True))
    ]
    with torch.autocast("cpu", torch.bfloat16):
        return speaker.lm_head(torch.cat(places)).float()


def compared(
    speaker: LlamaForCausalLM, language: Language, heard: Heard, said: list[list[int]], told: list[list[int]]
) -> tuple[Tensor, float]:
    """How far apart the answers' tokens are expected from the sounds and from the words, and the share of
    tokens that are the likeliest in both. said, told: tokens of each question and its answer.
    """
    before = language.rows[language.tokens.encode(BEFORE).ids]
    after = language.tokens.encode(AFTER).ids
    ends = [language.rows[after + answer] for answer in told]
    written = [torch.cat((before, language.rows[ids], end)) for ids, end in zip(said, ends, strict=True)]
    spoken = [
        torch.cat((before, output[:length], end))
        for output, length, end in zip(heard.outputs, heard.lengths, ends, strict=True)
    ]
    with torch.no_grad():
        right = expected(speaker, written, told).log_softmax(-1)
    got = expected(speaker, spoken, told).log_softmax(-1)
    apart = nn.functional.kl_div(got, right, log_target=True, reduction="batchmean")
    return apart, (got.argmax(-1) == right.argmax(-1)).float().mean().item()


def main(steps: int) -> None:
    begin()
    language, speaker = read_language(), read_speaker()
    listener = Listener(language)
    state = torch.load(TAUGHT if TAUGHT.exists() else MATCHED)
    listener.load_state_dict(state["model"])
    optimiser = Optimiser([Share(listener, RATE)], MUON, ADAM)
    answers: dict[str, list[int]] = torch.load(ANSWERS)
    asked = sorted((s for s in load_speech() if s[0] in answers), key=lambda s: len(s[1]))
    ids = {text: language.tokens.encode(text).ids for text, _ in asked}
    common = tokens_of([(ids[text], heard) for text, heard in asked], language)
    began, done, rng = time.process_time(), state.get("taught", 0), random.Random(state.get("taught", 3))
    for step in range(steps):
        batch = draw(asked, rng)
        heard = listen(listener, language, [(ids[text], sound) for text, sound in batch], common, rng)
        said, told = [ids[text] for text, _ in batch], [answers[text] for text, _ in batch]
        apart, same = compared(speaker, language, heard, said, told)
        (heard.loss + apart).backward()
        nn.utils.clip_grad_norm_(listener.parameters(), 1.0)
        optimiser.step(step / steps)
        if step % 10 == 9:
            progress = f"{step + 1} hearing {heard.loss:.3f}, apart {apart:.3f}, same {same:.2f}"
            print(f"{progress}, {time.process_time() - began:.0f} s", flush=True)
        if step % 50 == 49 or step == steps - 1:
            torch.save({"model": listener.state_dict(), "taught": done + step + 1}, TAUGHT)


if __name__ == "__main__":
    main(int(sys.argv[1]))
