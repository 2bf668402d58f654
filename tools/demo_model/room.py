"""What happens to a sound on its way to a microphone: pace, telephone band, echo, noise, loudness,
silence around.
"""

import random

import numpy as np
import soxr

from tools.demo_model.speak import RATE

SPEECH = ("digits", "word", "command", "unknown")


def band_limited(sound: np.ndarray, low: float, high: float) -> np.ndarray:
    spectrum = np.fft.rfft(sound)
    hertz = np.fft.rfftfreq(len(sound), 1 / RATE)
    gain = np.clip((hertz - low) / max(low, 1) + 1, 0, 1) * np.clip((high - hertz) / 300 + 1, 0, 1)
    return np.fft.irfft(spectrum * gain, len(sound)).astype(np.float32)


def echoed(sound: np.ndarray, rng: random.Random) -> np.ndarray:
    noise = np.random.default_rng(rng.randrange(2**32))
    length = int(rng.uniform(0.03, 0.2) * RATE)
    tail = noise.normal(0, 1, length) * np.exp(-6 * np.arange(length) / length)
    tail *= rng.uniform(0.05, 0.4) / np.sqrt((tail**2).sum())
    tail[0] = 1
    size = len(sound) + length
    return np.fft.irfft(np.fft.rfft(sound, size) * np.fft.rfft(tail, size), size)[: len(sound)].astype(
        np.float32
    )


def tilted(sound: np.ndarray, rng: random.Random) -> np.ndarray:
    """A smooth random change of timbre, as microphones and mouths differ."""
    spectrum = np.fft.rfft(sound)
    knots = np.array([rng.uniform(-9, 9) for _ in range(6)])
    decibel = np.interp(np.linspace(0, 5, len(spectrum)), np.arange(6), knots)
    return np.fft.irfft(spectrum * 10 ** (decibel / 20), len(sound)).astype(np.float32)


def intoned(sound: np.ndarray, rng: random.Random) -> np.ndarray:
    """The pace and with it the pitch wander as it goes, as in speech that is not read by a program."""
    knots = np.array([rng.uniform(-0.16, 0.16) for _ in range(rng.randrange(3, 7))])
    at = np.linspace(0, len(knots) - 1, len(sound))
    steps = np.exp(np.interp(at, np.arange(len(knots)), knots))
    times = np.cumsum(steps)
    wanted = np.arange(times[0], times[-1])
    return np.interp(wanted, times, sound).astype(np.float32)


def recorded(sound: np.ndarray, kind: str, rng: random.Random, longest: int) -> np.ndarray:
    """One recording of the sound, float32, at most `longest` samples; the pace never changes what it is."""
    speech = kind in SPEECH
    if speech and rng.random() < 0.5:
        sound = intoned(sound, rng)
    pace = rng.uniform(0.85, 1.5) if speech and rng.random() < 0.6 else 1.0
    if speech and (pace := min(pace, longest / len(sound))) != 1:  # what is cut off would not be heard
        sound = soxr.resample(sound, RATE, RATE * pace, quality="LQ")
    if speech and rng.random() < 0.5:
        sound = tilted(sound, rng)
    if speech and rng.random() < 0.4:
        sound = echoed(sound, rng)
    if kind not in ("silence",) and rng.random() < 0.4:
        sound = band_limited(sound, rng.choice((0, 100, 300)), rng.choice((3400, 3800, 3900, 5500, 7000)))
    loudness = 0.0 if kind == "silence" else 10 ** rng.uniform(-1.3, -0.1) / max(np.abs(sound).max(), 1e-4)
    sound = sound * loudness if kind != "silence" else sound
    spare = longest - len(sound)
    before, after = (int(max(0, min(rng.expovariate(6) * RATE, spare / 2))) for _ in range(2))
    sound = np.pad(sound, (before, after))[:longest]
    if kind != "silence" and rng.random() < 0.5:
        noise = np.random.default_rng(rng.randrange(2**32))
        level = 10 ** rng.uniform(-2.5, -1.0) * max(np.abs(sound).max(), 1e-4) * 0.4
        sound = sound + noise.normal(0, level, len(sound))
    return sound.astype(np.float32)
