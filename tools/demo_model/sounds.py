"""Sounds and what they are: speech, beeps, tones, sweeps, noise, silence, and sounds that have no name here.

`python -m tools.demo_model.sounds FIRST LAST` makes shards of the cache (2,048 sounds each).
"""

import pickle
import random
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tools.demo_model.speak import RATE, sample_foreign_voice, sample_natural_voice, sample_voice, speak
from tools.demo_model.words import COMMANDS, DIGITS, SPOKEN, UNKNOWN_SPEECH, babble, number_in_words

CACHE = Path(__file__).parent / ".cache"
SHARD = 2048
LONGEST = 4 * RATE
NATURAL_SHARDS = range(10, 11)  # only speech, in the voices most like people's
BABBLE_SHARDS = range(11, 12)  # only speech without a meaning, in voices of many languages
NUMBER_SHARDS = range(12, 13)  # only numbers said as one, half of them in natural voices
TONE_SHARDS = range(13, 14)  # nothing spoken
PITCHES = ("high", "low", "middle")


@dataclass
class Sound:
    """kind: digits, word, command, unknown, beeps, tone, sweep, noise, silence or foreign.

    text: the digits ("472"), the words, the number of beeps, or nothing; pitch: high, low, middle, rising or
    falling; whole: whether the digits are said as one number ("forty two").
    """

    kind: str
    text: str = ""
    pitch: str = ""
    whole: bool = False


KINDS = {
    "digits": 0.34, "word": 0.27, "command": 0.07, "unknown": 0.07,
    "beeps": 0.09, "tone": 0.04, "sweep": 0.04, "noise": 0.02, "silence": 0.03, "foreign": 0.03,
}  # fmt: skip


TONE_KINDS = {"beeps": 0.4, "tone": 0.35, "sweep": 0.1, "noise": 0.03, "silence": 0.02, "foreign": 0.1}
SPOKEN_KINDS = {"digits": 0.55, "word": 0.3, "command": 0.07, "unknown": 0.08}


def sample_sound(rng: random.Random, kinds: dict[str, float] = KINDS) -> Sound:
    kind = rng.choices(list(kinds), list(kinds.values()))[0]
    match kind:
        case "digits":
            digits = "".join(rng.choice("0123456789") for _ in range(rng.choice((1, 1, 1, 2, 3, 4))))
            whole = len(digits) == 2 and digits[0] != "0" and rng.random() < 0.5
            return Sound(kind, digits, whole=whole)
        case "word":
            return Sound(kind, rng.choice(SPOKEN))
        case "command":
            return Sound(kind, rng.choice(COMMANDS))
        case "unknown":
            return Sound(kind, rng.choice(UNKNOWN_SPEECH))
        case "beeps":
            return Sound(kind, str(rng.randrange(1, 6)), rng.choice(PITCHES))
        case "tone":
            return Sound(kind, "", rng.choice(PITCHES))
        case "sweep":
            return Sound(kind, "", rng.choice(("rising", "falling")))
    return Sound(kind)


def wave(hertz: np.ndarray, rng: random.Random) -> np.ndarray:
    """A tone of changing frequency, a sample an entry, pure or with overtones, faded at both ends."""
    phase = 2 * np.pi * np.cumsum(hertz) / RATE
    tone = np.sin(phase)
    if rng.random() < 0.4:
        tone = tone + rng.uniform(0.1, 0.5) * np.sin(2 * phase) + rng.uniform(0, 0.3) * np.sin(3 * phase)
    fade = np.minimum(1, np.minimum(np.arange(len(tone)), np.arange(len(tone))[::-1]) / (0.008 * RATE))
    return (tone * fade / np.abs(tone).max()).astype(np.float32)


def base_frequency(pitch: str, rng: random.Random) -> float:
    """In hertz, with gaps between what people would call high, middle and low."""
    return rng.uniform(*{"high": (900, 2600), "middle": (430, 800), "low": (110, 380)}[pitch])


def make_tones(sound: Sound, rng: random.Random) -> np.ndarray:
    if sound.kind == "sweep":
        low, high = rng.uniform(150, 500), rng.uniform(1000, 3000)
        steps = np.geomspace(low, high, int(rng.uniform(0.6, 1.8) * RATE))
        return wave(steps if sound.pitch == "rising" else steps[::-1], rng)
    hertz = base_frequency(sound.pitch, rng)
    if sound.kind == "tone":
        return wave(np.full(int(rng.uniform(0.7, 3) * RATE), hertz), rng)
    length, gap = (
        int(rng.uniform(0.08, 0.3) * RATE),
        np.zeros(int(rng.uniform(0.12, 0.4) * RATE), np.float32),
    )
    beep = wave(np.full(length, hertz), rng)
    return np.concatenate([part for _ in range(int(sound.text)) for part in (beep, gap)][:-1])


def make_noise(kind: str, rng: random.Random) -> np.ndarray:
    noise = np.random.default_rng(rng.randrange(2**32))
    length = int(rng.uniform(0.7, 1.9) * RATE)
    white = noise.normal(0, 1, length)
    if kind == "silence":
        return (white * rng.choice((0, 1e-5, 1e-4))).astype(np.float32)
    spectrum = np.fft.rfft(white)
    spectrum *= np.maximum(np.arange(len(spectrum)), 30.0) ** -rng.choice((0, 0, 0.5, 1.0))
    shaped = np.fft.irfft(spectrum, length)
    return (shaped / np.abs(shaped).max()).astype(np.float32)


def make_foreign(rng: random.Random) -> np.ndarray:
    """Melodies, chords, chirps, buzzes, or speech played backwards."""
    pick = rng.randrange(5)
    if pick == 0:
        return speak(rng.choice(UNKNOWN_SPEECH + COMMANDS + SPOKEN), sample_voice(rng))[::-1][:LONGEST]
    length = int(rng.uniform(1.0, 1.9) * RATE)
    if pick == 1:
        chord = sum(wave(np.full(length, rng.uniform(150, 1200)), rng) for _ in range(rng.randrange(2, 5)))
        return (chord / np.abs(chord).max()).astype(np.float32)
    if pick == 2:
        notes = [wave(np.full(int(rng.uniform(0.1, 0.35) * RATE), 220 * 2 ** (rng.randrange(30) / 12)), rng)
                 for _ in range(rng.randrange(4, 8))]  # fmt: skip
        return np.concatenate(notes)[:LONGEST]
    wobble = np.sin(2 * np.pi * rng.uniform(3, 25) * np.arange(length) / RATE)
    if pick == 3:
        return wave(rng.uniform(500, 2500) * (1 + rng.uniform(0.1, 0.6) * wobble), rng)
    noise = make_noise("noise", rng)
    return noise * np.clip(np.resize(wobble, len(noise)), 0, 1).astype(np.float32) ** 4


def spoken_text(sound: Sound, rng: random.Random) -> str:
    if sound.kind != "digits":
        return sound.text
    if sound.whole:
        return number_in_words(sound.text)
    return rng.choice((" ", " ", ", ")).join(DIGITS[int(d)] for d in sound.text)


def make(sound: Sound, rng: random.Random, held_out: bool = False) -> np.ndarray:
    """The sound's samples at 16 kHz, at most four seconds."""
    match sound.kind:
        case "digits" | "word" | "command" | "unknown":
            samples = speak(spoken_text(sound, rng), sample_voice(rng, held_out))
        case "noise" | "silence":
            samples = make_noise(sound.kind, rng)
        case "foreign":
            samples = make_foreign(rng)
        case _:
            samples = make_tones(sound, rng)
    return samples[:LONGEST]


def make_natural(sound: Sound, rng: random.Random) -> np.ndarray:
    """Speech of a natural voice, in one of several tones."""
    ending = rng.choice((".", ".", "!", "?", ""))
    return speak(spoken_text(sound, rng) + ending, sample_natural_voice(rng))[:LONGEST]


def make_number(sound: Sound, rng: random.Random) -> np.ndarray:
    return make_natural(sound, rng) if rng.random() < 0.5 else make(sound, rng)


def make_babble(sound: Sound, rng: random.Random) -> np.ndarray:
    return speak(sound.text, sample_foreign_voice(rng))[:LONGEST]


def make_shard(index: int) -> None:
    target = CACHE / f"sounds-{index:03d}.pkl"
    if target.exists():
        return
    rng = random.Random(f"sounds {index}")
    if index in NATURAL_SHARDS:
        sounds, record = [sample_sound(rng, SPOKEN_KINDS) for _ in range(SHARD)], make_natural
    elif index in NUMBER_SHARDS:
        sounds = [Sound("digits", str(rng.randrange(10, 100)), whole=True) for _ in range(SHARD)]
        record = make_number
    elif index in TONE_SHARDS:
        sounds, record = [sample_sound(rng, TONE_KINDS) for _ in range(SHARD)], make
    elif index in BABBLE_SHARDS:
        sounds, record = [Sound("unknown", babble(rng)) for _ in range(SHARD)], make_babble
    else:
        sounds, record = [sample_sound(rng) for _ in range(SHARD)], make
    samples = [record(sound, rng) for sound in sounds]
    CACHE.mkdir(exist_ok=True)
    loud = ((x * 32767).clip(-32767, 32767).astype(np.int16) for x in samples)
    pairs = [(asdict(sound), x) for sound, x in zip(sounds, loud, strict=True)]
    target.with_suffix(".part").write_bytes(pickle.dumps(pairs))
    target.with_suffix(".part").rename(target)


def load_sounds() -> list[tuple[Sound, np.ndarray]]:
    """Every cached sound with its samples, int16 at 16 kHz."""
    shards = (pickle.loads(path.read_bytes()) for path in sorted(CACHE.glob("sounds-???.pkl")))
    return [(Sound(**fields), samples) for shard in shards for fields, samples in shard]


if __name__ == "__main__":
    for shard in range(int(sys.argv[1]), int(sys.argv[2])):
        make_shard(shard)
        print(f"shard {shard} made", flush=True)
