"""What the listener alone understands, before the language model: `python -m tools.smol_omni.probe`.

Held-out sentences in held-out voices; with arguments, also recordings: a file, then its words.
"""

import random
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tools.demo_model.answer import load_sound
from tools.demo_model.speak import Voice, sample_voice, speak
from tools.smol_omni.held_out import COMMANDS, QUESTIONS, SENTENCES
from tools.smol_omni.network import Language, Listener, nearness, read_language
from tools.smol_omni.score import error_rate
from tools.smol_omni.speech import KOKORO_HELD_OUT, heard
from tools.smol_omni.stages import latest


def spoken(texts: tuple[str, ...], seed: str) -> list[tuple[str, np.ndarray]]:
    """In voices that training never used: of espeak-ng, festival and Kokoro."""
    rng = random.Random(seed)
    found = []
    for text in texts:
        natural = Voice("kokoro", rng.choice(KOKORO_HELD_OUT), rng.uniform(0.8, 1.1), 1.0)
        voice = natural if rng.random() < 0.5 else sample_voice(rng, held_out=True)
        found.append((text, speak(text, voice).astype(np.float32)))
    return found


@torch.inference_mode()
def understood(listener: Listener, language: Language, positions: Tensor) -> str:
    """The nearest token at each position, repetitions and nothing left out."""
    outputs = listener(positions[None], torch.tensor([len(positions)]))[0]
    best = nearness(outputs, language.rows).argmax(1).tolist()
    kept = [token for token, before in zip(best, [-1, *best], strict=False) if token != before]
    return language.tokens.decode([token for token in kept if token != language.nothing])


def main(recordings: list[str]) -> None:
    torch.set_num_threads(1)
    language = read_language()
    listener = Listener(language).eval()
    state = torch.load(latest())
    listener.load_state_dict(state["model"])
    kinds = {
        "sentences": spoken(SENTENCES, "sentences"),
        "commands": spoken(COMMANDS, "commands"),
        "questions": spoken(tuple(QUESTIONS), "questions"),
        "recordings": [
            (text, load_sound(Path(name)))
            for name, text in zip(recordings[::2], recordings[1::2], strict=True)
        ],
    }
    print(latest().name)
    for kind, sounds in kinds.items():
        pairs = [(text, understood(listener, language, heard(sound))) for text, sound in sounds]
        for text, answer in pairs:
            print(f"    {text} | {answer}")
        if pairs:
            print(f"{kind}: {error_rate(pairs):.2f} of the words wrong", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
