"""The exported checkpoint, asked as anyone would: transformers' own processors, chat template and greedy
generate.

`python -m tools.demo_model.answer "What is this?" picture.png sound.wav` prints the answer.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
import torch
from PIL import Image
from transformers import (
    AutoImageProcessor,
    AutoTokenizer,
    Qwen2_5OmniThinkerForConditionalGeneration,
    WhisperFeatureExtractor,
)
from transformers.utils import logging

from tools.demo_model.mel import token_count
from tools.demo_model.speak import RATE

Part = str | Image.Image | np.ndarray
Turn = tuple[str, str | list[Part]]


class Demo:
    """`answer` takes a conversation: ("user", [parts]) and ("assistant", text) turns, the last one a
    user's.
    """

    def __init__(self, checkpoint: Path) -> None:
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self.tokenizer = AutoTokenizer.from_pretrained(checkpoint)
        self.images = AutoImageProcessor.from_pretrained(checkpoint, backend="pil")
        self.sounds = WhisperFeatureExtractor.from_pretrained(checkpoint)
        load = Qwen2_5OmniThinkerForConditionalGeneration.from_pretrained
        loaded: Any = load(checkpoint, dtype=torch.float32, output_loading_info=True)
        self.model, self.loading = loaded

    def render(self, turns: list[Turn]) -> tuple[str, list[Image.Image], list[np.ndarray]]:
        """The templated text, and the media in order."""
        images, sounds, messages = [], [], []
        for role, parts in turns:
            content = []
            for part in [parts] if isinstance(parts, str) else parts:
                if isinstance(part, str):
                    content.append({"type": "text", "text": part})
                elif isinstance(part, Image.Image):
                    content.append({"type": "image"})
                    images.append(part.convert("RGB"))
                else:
                    content.append({"type": "audio"})
                    sounds.append(part)
            messages.append({"role": role, "content": content})
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return text, images, sounds

    def inputs(self, turns: list[Turn]) -> dict[str, torch.Tensor]:
        """Everything that the model's forward wants for the conversation."""
        text, images, sounds = self.render(turns)
        found: dict[str, torch.Tensor] = {}
        if images:
            found |= self.images(images=images, return_tensors="pt")
            for grid in found["image_grid_thw"]:
                text = text.replace("<|IMAGE|>", "<picture>" * (int(grid.prod()) // 4), 1)
        if sounds:
            heard = self.sounds(sounds, sampling_rate=RATE, return_attention_mask=True, return_tensors="pt")
            found |= {
                "input_features": heard["input_features"],
                "feature_attention_mask": heard["attention_mask"],
            }
            for frames in heard["attention_mask"].sum(1).tolist():
                text = text.replace("<|AUDIO|>", "<sound>" * token_count(frames), 1)
        text = text.replace("<picture>", "<|IMAGE|>").replace("<sound>", "<|AUDIO|>")
        return found | dict(self.tokenizer(text, add_special_tokens=False, return_tensors="pt"))

    @torch.inference_mode()
    def answer(self, turns: list[Turn], max_new_tokens: int = 48) -> str:
        inputs = self.inputs(turns)
        out = self.model.generate(**inputs, max_new_tokens=max_new_tokens, do_sample=False)
        return self.tokenizer.decode(out[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)

    def ask(self, question: str, *media: Part) -> str:
        """One question about media given before it."""
        return self.answer([("user", [*media, question])])


def load_sound(path: Path) -> np.ndarray:
    """Any file that soundfile reads, as mono float32 at 16 kHz."""
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return soxr.resample(samples.mean(1), rate, RATE)


if __name__ == "__main__":
    from tools.demo_model.tokens import CHECKPOINT

    files = [Path(name) for name in sys.argv[2:]]
    print(
        Demo(CHECKPOINT).ask(
            sys.argv[1], *(load_sound(f) if f.suffix == ".wav" else Image.open(f) for f in files)
        )
    )
