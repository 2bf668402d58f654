"""Spoken sentences as the frozen half of the audio tower hears them: `python -m tools.smol_omni.speech`.

Each shard of the cache holds SHARD sentences: text, and float16 [positions, width] at 50 positions a second.
Whisper's encoder stays as it is, so it needs to hear every recording only once.
"""

import pickle
import random
import sys

import numpy as np
import torch
from torch import Tensor

from tools.demo_model.mel import log_mel
from tools.demo_model.room import recorded
from tools.demo_model.speak import RATE, Voice, sample_natural_voice, sample_voice, speak
from tools.smol_omni import CACHE
from tools.smol_omni.sentences import compose, compose_talk
from tools.smol_omni.tower import whisper_tower

SHARD = 256
TALK_SHARDS = range(40, 80)  # what an assistant is asked; the others have all kinds of sentences
LONGEST = 7 * RATE
KOKORO_HELD_OUT = ("bf_emma", "am_michael", "af_nicole")


def sample_any_voice(rng: random.Random) -> Voice:
    if rng.random() < 0.55:
        return sample_voice(rng)
    voice = sample_natural_voice(rng)
    while voice.engine == "kokoro" and (voice.name in KOKORO_HELD_OUT or rng.random() < 0.93):  # it is slow
        voice = sample_natural_voice(rng)
    return voice


@torch.inference_mode()
def heard(sound: np.ndarray) -> Tensor:
    """float32 [positions, width] of samples at 16 kHz: the residual stream after Whisper's own layers."""
    return whisper_tower()(log_mel(np.ascontiguousarray(sound)))


def make(rng: random.Random, talk: bool) -> tuple[str, np.ndarray]:
    text = compose_talk(rng) if talk else compose(rng)
    sound = speak(text, sample_any_voice(rng))
    if rng.random() < 0.75:
        sound = recorded(sound, "command", rng, LONGEST)
    return text, heard(sound[:LONGEST].astype(np.float32)).half().numpy()


def make_shard(index: int) -> None:
    rng, made = random.Random(f"smol-omni {index}"), []
    while len(made) < SHARD:
        try:
            made.append(make(rng, index in TALK_SHARDS))
        except (ValueError, IndexError):  # a voice that cannot say it
            continue
    path = CACHE / f"speech-{index:03d}.pkl"
    path.with_suffix(".part").write_bytes(pickle.dumps(made))
    path.with_suffix(".part").rename(path)


def load_speech() -> list[tuple[str, np.ndarray]]:
    """All that is in the cache."""
    shards = (pickle.loads(path.read_bytes()) for path in sorted(CACHE.glob("speech-???.pkl")))
    return [pair for shard in shards for pair in shard]


if __name__ == "__main__":
    torch.set_num_threads(1)
    CACHE.mkdir(exist_ok=True)
    for shard in range(int(sys.argv[1]), int(sys.argv[2])):
        if not (CACHE / f"speech-{shard:03d}.pkl").exists():
            make_shard(shard)
            print(f"shard {shard}", flush=True)
