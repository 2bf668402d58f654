"""Speech from programs: espeak-ng, flite, Pico and Kokoro for training, other voices and festival kept for
the evaluation.
"""

import importlib
import io
import random
import subprocess
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import soundfile
import soxr

from tools.demo_model import kokoro

RATE = 16_000
ACCENTS = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-gb-x-gbcwmd", "en-gb-x-gbclan", "en-us-nyc")
VARIANTS = (
    "", "", "+m1", "+m2", "+m3", "+m4", "+m5", "+m6", "+m7", "+f1", "+f2", "+f3", "+f4", "+klatt", "+klatt2",
    "+klatt4", "+Andrea", "+Annie", "+antonio", "+aunty", "+Denis", "+edward", "+iven", "+Jacky", "+john",
    "+kaukovalta", "+linda", "+max", "+Michael", "+michel", "+norbert", "+paul", "+quincy", "+rob", "+robert",
    "+steph2", "+travis", "+zac", "+adam", "+anika", "+belinda", "+benjamin", "+boris", "+david", "+ed",
    "+Caleb",
)  # fmt: skip
HELD_OUT_VARIANTS = (
    "+m8",
    "+f5",
    "+Alex",
    "+Alicia",
    "+Andy",
    "+Diogo",
    "+Gene2",
    "+Hugo",
    "+steph3",
    "+klatt3",
)
FLITE_VOICES = ("kal", "kal16", "awb", "rms", "slt")


class Voice(NamedTuple):
    """An engine (espeak, flite, festival, pico or kokoro), its voice, and how it is spoken: speed and pitch
    around 1.
    """

    engine: str
    name: str
    speed: float
    pitch: float


def sample_voice(rng: random.Random, held_out: bool = False) -> Voice:
    speed, pitch = rng.uniform(0.75, 1.3), rng.uniform(0.75, 1.35)
    if held_out and rng.random() < 0.3:
        return Voice("festival", rng.choice(("kal_diphone", "cmu_us_slt_arctic_hts")), 1.0, 1.0)
    if not held_out and rng.random() < 0.4:
        return Voice("flite", rng.choice(FLITE_VOICES), speed, pitch)
    variant = rng.choice(HELD_OUT_VARIANTS if held_out else VARIANTS)
    return Voice("espeak", rng.choice(ACCENTS) + variant, speed, pitch)


def sample_natural_voice(rng: random.Random) -> Voice:
    """One of the voices that sound like people."""
    if rng.random() < 0.4:
        return Voice("pico", rng.choice(("en-GB", "en-US")), rng.uniform(0.6, 1.2), rng.uniform(0.8, 1.3))
    return Voice("kokoro", rng.choice(kokoro.NAMES), rng.uniform(0.65, 1.2), 1.0)


def sample_foreign_voice(rng: random.Random) -> Voice:
    """Voices of several languages, natural and not."""
    speed, pitch = rng.uniform(0.8, 1.3), rng.uniform(0.75, 1.35)
    if rng.random() < 0.5:
        return Voice("pico", rng.choice(("de-DE", "es-ES", "fr-FR", "it-IT", "en-GB", "en-US")), speed, pitch)
    return Voice(
        "espeak", rng.choice(("de", "es", "fr-fr", "it", "pl", "cs", "nl", "tr", "en-us")), speed, pitch
    )


def command(voice: Voice, text: str) -> list[str]:
    """The command line that speaks the text, as a wav file, to standard output."""
    match voice.engine:
        case "espeak":
            speed, pitch = round(150 * voice.speed), round(min(99, 50 * voice.pitch))
            return ["espeak-ng", "-v", voice.name, "-s", str(speed), "-p", str(pitch), "--stdout", text]
        case "flite":
            mean = {"slt": 180, "kal": 105, "kal16": 105, "awb": 125, "rms": 105}[voice.name] * voice.pitch
            stretch = f"duration_stretch={1 / voice.speed:.3f}"
            pitch = f"int_f0_target_mean={mean:.0f}"
            return [
                "flite",
                "-voice",
                voice.name,
                "--setf",
                stretch,
                "--setf",
                pitch,
                "-t",
                text,
                "-o",
                "/dev/stdout",
            ]
        case "festival":
            return ["text2wave", "-eval", f"(voice_{voice.name})"]
    raise ValueError(f"no engine {voice.engine}")


@lru_cache
def pico() -> Any:
    return importlib.import_module("py_nanotts").NanoTTS()


def speak(text: str, voice: Voice) -> np.ndarray:
    """The spoken text at 16 kHz: float32 in [-1, 1], silence at both ends cut away."""
    match voice.engine:
        case "kokoro":
            samples = kokoro.speak(text, voice.name, voice.speed)
            return trimmed(soxr.resample(samples, kokoro.RATE, RATE))
        case "pico":
            said = pico().speak(text, voice.name, voice.speed, voice.pitch)
            return trimmed(np.frombuffer(said, np.int16).astype(np.float32) / 32768)
    stdin = text.encode() if voice.engine == "festival" else b""
    wav = subprocess.run(command(voice, text), input=stdin, capture_output=True, check=True).stdout
    return trimmed(decoded(wav))


def decoded(wav: bytes) -> np.ndarray:
    """Samples at 16 kHz from a wav file whose header may claim any length, as piped ones do."""
    begin = wav.index(b"data") + 8
    samples = (len(wav) - begin) // 2 * 2
    header = bytearray(wav[:begin])
    header[-4:] = samples.to_bytes(4, "little")
    header[4:8] = (begin - 8 + samples).to_bytes(4, "little")
    sound, rate = soundfile.read(io.BytesIO(bytes(header) + wav[begin : begin + samples]), dtype="float32")
    return soxr.resample(sound, rate, RATE) if rate != RATE else sound


def trimmed(sound: np.ndarray) -> np.ndarray:
    loud = np.flatnonzero(np.abs(sound) > 0.02 * max(np.abs(sound).max(), 1e-4))
    return sound[loud[0] : loud[-1] + 1] if len(loud) else sound[:RATE]
