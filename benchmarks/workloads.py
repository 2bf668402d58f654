"""What is asked: chats, each a list of turns that one user sends in order."""

import base64
import io
import random
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import soundfile
from PIL import Image

Chat = list[dict]
"""Successive user messages; each is sent with all that was said before it."""


class Workload(NamedTuple):
    """make(rng, count): `count` chats. max_tokens: asked for in every turn."""

    make: Callable[[random.Random, int], list[Chat]]
    max_tokens: int


def _words(rng: random.Random, count: int) -> str:
    consonants, vowels = "bcdfghjklmnprstvz", "aeiou"
    return " ".join(
        "".join(rng.choice(consonants) + rng.choice(vowels) for _ in range(rng.randint(1, 3)))
        for _ in range(count)
    )


def _picture(rng: random.Random, width: int, height: int, encoding: str = "PNG") -> dict:
    coarse = np.random.default_rng(rng.randrange(1 << 32)).integers(
        0, 256, (height // 32, width // 32, 3), np.uint8
    )
    image = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    buffer = io.BytesIO()
    image.save(buffer, encoding, quality=90)
    data = base64.b64encode(buffer.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/{encoding.lower()};base64,{data}"}}


def _sound(rng: random.Random, seconds: float) -> dict:
    noise = (
        np.random.default_rng(rng.randrange(1 << 32))
        .standard_normal(int(seconds * 16_000))
        .astype(np.float32)
    )
    smooth = np.convolve(noise, np.ones(8, np.float32) / 8, mode="same")
    buffer = io.BytesIO()
    soundfile.write(buffer, smooth * 0.3, 16_000, format="WAV", subtype="PCM_16")
    return {
        "type": "input_audio",
        "input_audio": {"data": base64.b64encode(buffer.getvalue()).decode(), "format": "wav"},
    }


def _user(*parts: dict | str) -> dict:
    content = [part if isinstance(part, dict) else {"type": "text", "text": part} for part in parts]
    return {"role": "user", "content": content}


def _text(rng: random.Random, count: int) -> list[Chat]:
    return [[_user(_words(rng, 110))] for _ in range(count)]


def _image_cold(rng: random.Random, count: int) -> list[Chat]:
    return [[_user(_picture(rng, 448, 448), _words(rng, 12))] for _ in range(count)]


def _image_turns(rng: random.Random, count: int) -> list[Chat]:
    return [
        [_user(_picture(rng, 448, 448), _words(rng, 12)), *(_user(_words(rng, 12)) for _ in range(7))]
        for _ in range(count)
    ]


def _image_repeat(rng: random.Random, count: int) -> list[Chat]:
    """One large photograph, the very same request again and again."""
    message = _user(_picture(rng, 1920, 1088, "JPEG"), _words(rng, 12))
    return [[message] for _ in range(count)]


def _audio_cold(rng: random.Random, count: int) -> list[Chat]:
    return [[_user(_sound(rng, 5.0), _words(rng, 12))] for _ in range(count)]


def _audio_repeat(rng: random.Random, count: int) -> list[Chat]:
    message = _user(_sound(rng, 5.0), _words(rng, 12))
    return [[message] for _ in range(count)]


def _shared_prefix(rng: random.Random, count: int) -> list[Chat]:
    system = {"role": "system", "content": _words(rng, 400)}
    picture = _picture(rng, 448, 448)
    return [[system | {"then": _user(picture, _words(rng, 12))}] for _ in range(count)]


def _burst(rng: random.Random, count: int) -> list[Chat]:
    """Many users who send the same new picture at once, each with a question of their own."""
    picture = _picture(rng, 896, 896)
    return [[_user(picture, _words(rng, 8))] for _ in range(count)]


def _mixed(rng: random.Random, count: int) -> list[Chat]:
    makers = (_text, _image_cold, _image_turns)
    return [makers[index % len(makers)](rng, 1)[0] for index in range(count)]


WORKLOADS: dict[str, Workload] = {
    "text": Workload(_text, 64),
    "image-cold": Workload(_image_cold, 32),
    "image-warm": Workload(_image_turns, 32),
    "image-repeat": Workload(_image_repeat, 8),
    "audio-cold": Workload(_audio_cold, 16),
    "audio-warm": Workload(_audio_repeat, 16),
    "shared-prefix": Workload(_shared_prefix, 32),
    "burst": Workload(_burst, 8),
    "mixed": Workload(_mixed, 32),
}


@cache
def chats(workload: str, seed: int, count: int) -> list[Chat]:
    """The same chats for the same arguments, on every server."""
    return WORKLOADS[workload].make(random.Random(f"{workload}-{seed}"), count)
