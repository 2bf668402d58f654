"""From the bytes of the two packages to the files of one checkpoint."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from models.smol_omni import adapters, layout
from models.smol_omni.ctranslate import read_variables
from models.smol_omni.gguf import read_gguf
from models.smol_omni.hearing import WHISPER_LAYERS, audio_config, encoder_tensors
from models.smol_omni.language import language_tensors, text_config
from models.smol_omni.tokens import tokenizer, tokenizer_config

HERE = Path(__file__).parent
COPIED = {
    HERE / "chat_template.jinja": "chat_template.jinja",
    HERE / "CARD.md": "README.md",
    HERE.parent / "demo" / "LICENSE": "LICENSE",
    HERE.parent / "demo" / "spk_dict.pt": "spk_dict.pt",
}
"""The last one holds the voices of the talker, of which there are none."""


def assemble(language: bytes, hearing: bytes, folder: Path, trained: dict[str, np.ndarray]) -> None:
    """language: a GGUF file. hearing: a CTranslate2 file. trained: as `read_adapters` gives it.

    ValueError if a file is not of the kind that is meant.
    """
    metadata, weights = read_gguf(language)
    text = text_config(metadata)
    tensors = {f"thinker.{k}": adapters.bfloat16(v) for k, v in language_tensors(metadata, weights).items()}
    for name, value in encoder_tensors(read_variables(hearing)).items():
        tensors[f"thinker.audio_tower.{name}"] = adapters.bfloat16(value)
    tensors |= _empty_tensors(text["hidden_size"])
    tensors |= {f"thinker.{name}": bits for name, bits in trained.items()}
    adapters.write_tensors(folder / "model.safetensors", tensors)
    words = tokenizer(metadata)
    words.save(str(folder / "tokenizer.json"))
    _write(folder / "tokenizer_config.json", tokenizer_config(text["max_position_embeddings"]))
    audio = audio_config(num_own_layers(trained), text["hidden_size"])
    _write(folder / "config.json", layout.config(text, audio, words.encode("user").ids[0]))
    _write(folder / "generation_config.json", layout.generation_config())
    _write(folder / "preprocessor_config.json", layout.preprocessor_config())
    for source, name in COPIED.items():
        shutil.copyfile(source, folder / name)


def num_own_layers(trained: dict[str, np.ndarray]) -> int:
    """Layers of the audio tower that follow Whisper's."""
    names = (name.split(".") for name in trained if name.startswith("audio_tower.layers."))
    return max((int(parts[2]) + 1 for parts in names), default=WHISPER_LAYERS) - WHISPER_LAYERS


def _empty_tensors(width: int) -> dict[str, np.ndarray]:
    shapes = {f"thinker.visual.{name}": shape for name, shape in layout.vision_shapes(width).items()}
    shapes["thinker.audio_tower.audio_bos_eos_token.weight"] = (2, width)
    return {name: np.zeros(shape, np.uint16) for name, shape in shapes.items()}


def _write(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n")
