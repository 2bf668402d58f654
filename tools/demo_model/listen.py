"""Stage 2: the audio tower, begun from whisper-tiny.en's first layers, learns to spell out what it hears,
by CTC.

`python -m tools.demo_model.listen STEPS` continues from .cache/listen.pt if it is there.
"""

import random
import sys
import time

import numpy as np
import torch
from torch import Tensor, nn

from tools.demo_model.device import begin, half_precision, moved
from tools.demo_model.hearing import AudioTower
from tools.demo_model.mel import log_mel, other_mouth, token_count
from tools.demo_model.optimiser import Optimiser, Share
from tools.demo_model.room import SPEECH, recorded
from tools.demo_model.shares import Shares
from tools.demo_model.sizes import CHUNK_FRAMES, LANGUAGE
from tools.demo_model.sounds import CACHE, LONGEST, NATURAL_SHARDS, SHARD, Sound, load_sounds
from tools.demo_model.speak import RATE
from tools.demo_model.whisper import WHEEL, start_from_whisper
from tools.demo_model.words import COMMANDS, DIGITS, SPOKEN

EVENTS = (
    "unknown",
    "noise",
    "silence",
    "foreign",
    "beep high",
    "beep low",
    "tone high",
    "tone low",
    "rising",
    "falling",
    "beep middle",
    "tone middle",
)
LABELS = ("blank", *dict.fromkeys((*DIGITS, *SPOKEN, *" ".join(COMMANDS).split(), *EVENTS)))
BATCH = 40
SHARES = {
    "digit": 27, "digits": 17, "word": 24, "command": 6, "unknown": 10,
    "beeps": 7, "tone": 3, "sweep": 3, "noise": 1, "silence": 1, "foreign": 4,
}  # fmt: skip
NATURAL_WEIGHT = 5  # a natural voice is heard as often as so many others of its group
LONG_SHARES = {**SHARES, "digits": 60, "beeps": 18, "command": 1}


def spelling(sound: Sound) -> list[int]:
    """The sound as a sequence of labels."""
    match sound.kind:
        case "digits":
            names = [DIGITS[int(d)] for d in sound.text]
        case "word" | "command":
            names = sound.text.split()
        case "beeps":
            names = [f"beep {sound.pitch}"] * int(sound.text)
        case "tone":
            names = [f"tone {sound.pitch}"]
        case "sweep":
            names = [sound.pitch]
        case _:
            names = [sound.kind]
    return [LABELS.index(name) for name in names]


class SoundBatches:
    """Cached sounds, each time recorded anew; those that fit into one chunk (two seconds) and longer
    ones apart.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.sounds = load_sounds()
        limit = 1.8 * RATE
        self.short, self.long = Shares(SHARES), Shares(LONG_SHARES)
        for i, (sound, samples) in enumerate(self.sounds):
            group = "digit" if sound.kind == "digits" and len(sound.text) == 1 else sound.kind
            for _ in range(NATURAL_WEIGHT if i // SHARD in NATURAL_SHARDS else 1):
                (self.short if len(samples) <= limit else self.long).add(group, i)

    def record(self, index: int, chunks: int) -> tuple[Sound, Tensor, int]:
        """The sound, its features padded to (mels, chunks * frames), and how many frames are real."""
        sound, samples = self.sounds[index]
        wave = samples.astype(np.float32) / 32768
        mel = log_mel(recorded(wave, sound.kind, self.rng, min(LONGEST, chunks * 2 * RATE)))
        if sound.kind in SPEECH and self.rng.random() < 0.5:
            mel = other_mouth(mel, self.rng.uniform(0.87, 1.15))
        frames = mel.shape[1]
        return sound, nn.functional.pad(mel, (0, chunks * CHUNK_FRAMES - frames)), frames

    def draw(self, count: int, chunks: int) -> tuple[list[Sound], Tensor, Tensor]:
        """Sounds, features (count * chunks, mels, frames), and frames in each chunk."""
        drawn = [
            self.record((self.short if chunks == 1 else self.long).draw(self.rng), chunks)
            for _ in range(count)
        ]
        mel = torch.stack([m for _, m, _ in drawn]).unflatten(2, (chunks, -1)).transpose(1, 2).flatten(0, 1)
        lengths = [
            min(max(f - c * CHUNK_FRAMES, 1), CHUNK_FRAMES) for _, _, f in drawn for c in range(chunks)
        ]
        return [s for s, _, _ in drawn], mel, torch.tensor(lengths)


def ctc(logits: Tensor, sounds: list[Sound], tokens: list[int]) -> Tensor:
    """logits: (sounds, tokens, labels)."""
    targets = [spelling(s) for s in sounds]
    return nn.functional.ctc_loss(
        logits.float().log_softmax(-1).transpose(0, 1),
        torch.tensor([t for target in targets for t in target]),
        torch.tensor(tokens),
        torch.tensor([len(t) for t in targets]),
        zero_infinity=True,
    )


def main(steps: int) -> None:
    torch.manual_seed(0)
    tower, speller = AudioTower(), nn.Linear(LANGUAGE["hidden"], len(LABELS))
    saved = CACHE / "listen.pt"
    if saved.exists():
        tower.load_state_dict(torch.load(saved)["tower"])
        speller.load_state_dict(torch.load(saved)["speller"])
    else:
        start_from_whisper(tower, CACHE / WHEEL)
    optimiser = Optimiser([Share(tower, 0.15), Share(speller, 1.0)], muon_lr=0.02, adam_lr=2e-3)
    batches = SoundBatches(steps)

    @torch.compile(dynamic=False)
    def hear(mel: Tensor, lengths: Tensor) -> Tensor:
        with half_precision():
            return tower(mel, lengths)

    started, mean = time.process_time(), 0.0
    for step in range(steps):
        chunks = 2 if step % 4 == 3 else 1
        with torch.device("cpu"):
            sounds, *recorded_sounds = batches.draw(BATCH // chunks, chunks)
        mel, lengths = moved(*recorded_sounds)
        tokens = [token_count(f) for f in lengths.view(-1, chunks).sum(1).tolist()]
        features = hear(mel, lengths).unflatten(0, (-1, chunks)).flatten(1, 2)
        loss = ctc(speller(features.float()), sounds, [min(t, features.shape[1]) for t in tokens])
        loss.backward()
        optimiser.step(step / steps)
        mean = loss.item() if not mean else 0.96 * mean + 0.04 * loss.item()
        if step % 25 == 24 or step + 1 == steps:
            print(f"{step + 1}/{steps} loss {mean:.3f} cpu {time.process_time() - started:.0f} s", flush=True)
            torch.save({"tower": tower.state_dict(), "speller": speller.state_dict()}, saved)


if __name__ == "__main__":
    begin(threads=1)
    main(int(sys.argv[1]))
