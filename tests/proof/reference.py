"""The oracle: the same checkpoint run by `transformers`, fp32, whole prompt at once.

It gets every output of its own processors and shares nothing with the product: it expands placeholders
by its own counts.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5OmniThinkerForConditionalGeneration,
    Qwen2AudioForConditionalGeneration,
    Qwen2VLForConditionalGeneration,
    Qwen3VLForConditionalGeneration,
    WhisperFeatureExtractor,
)
from transformers.models.qwen2_5_omni.processing_qwen2_5_omni import _get_feat_extract_output_lengths
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

SAMPLING_RATE = 16_000


class Picture(NamedTuple):
    image: Image.Image


class Sound(NamedTuple):
    """samples: float32 [n], mono, 16 kHz."""

    samples: np.ndarray


Piece = int | Picture | Sound
"""A prompt is a list of pieces: a token id, or media that its placeholder tokens stand for."""


class Reference:
    """A checkpoint as `transformers` runs it."""

    def __init__(self, path: Path) -> None:
        config = AutoConfig.from_pretrained(path)
        self.image_processor = Qwen2VLImageProcessorPil.from_pretrained(path) if _has_vision(config) else None
        self.feature_extractor = WhisperFeatureExtractor.from_pretrained(path) if _has_audio(config) else None
        thinker = getattr(config, "thinker_config", config)
        self.image_token = getattr(thinker, "image_token_id", None)
        self.audio_token = getattr(thinker, "audio_token_id", None)
        self.is_vl = config.model_type in ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")
        self.model = _MODELS.get(config.model_type, AutoModelForCausalLM).from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager"
        )
        self.model.eval()

    def ids_and_inputs(self, pieces: Sequence[Piece]) -> tuple[list[int], dict[str, torch.Tensor]]:
        """Token ids with placeholders expanded, and the model's keyword arguments for the media."""
        ids: list[int] = []
        pixels, grids, features, masks = [], [], [], []
        for piece in pieces:
            if isinstance(piece, Picture):
                out = self.image_processor(images=[piece.image], return_tensors="pt")
                pixels.append(out["pixel_values"])
                grids.append(out["image_grid_thw"])
                merged = int(out["image_grid_thw"].prod()) // self.image_processor.merge_size**2
                ids += [self.image_token] * merged
            elif isinstance(piece, Sound):
                out = self.feature_extractor(
                    piece.samples,
                    sampling_rate=SAMPLING_RATE,
                    padding="max_length",
                    return_attention_mask=True,
                    return_tensors="pt",
                )
                features.append(out["input_features"])
                masks.append(out["attention_mask"])
                ids += [self.audio_token] * int(
                    _get_feat_extract_output_lengths(out["attention_mask"].sum(-1))
                )
            else:
                ids.append(piece)
        inputs: dict[str, torch.Tensor] = {}
        if pixels:
            inputs |= {"pixel_values": torch.cat(pixels), "image_grid_thw": torch.cat(grids)}
        if features:
            inputs |= {"input_features": torch.cat(features), "feature_attention_mask": torch.cat(masks)}
        return ids, inputs

    @torch.no_grad()
    def log_probs(self, pieces: Sequence[Piece], continuation: Sequence[int] = ()) -> torch.Tensor:
        """float32 [1 + len(continuation), vocab], from the prompt's last token on."""
        ids, inputs = self.ids_and_inputs(pieces)
        tokens = torch.tensor([ids + list(continuation)])
        inputs["attention_mask"] = torch.ones_like(tokens)
        if self.is_vl:
            inputs["mm_token_type_ids"] = (tokens == self.image_token).int()
        logits = self.model(input_ids=tokens, **inputs).logits[0, len(ids) - 1 :]
        return torch.log_softmax(logits.float(), dim=-1)


_MODELS = {
    "qwen2_vl": Qwen2VLForConditionalGeneration,
    "qwen2_5_vl": Qwen2_5_VLForConditionalGeneration,
    "qwen3_vl": Qwen3VLForConditionalGeneration,
    "qwen2_audio": Qwen2AudioForConditionalGeneration,
    "qwen2_5_omni": Qwen2_5OmniThinkerForConditionalGeneration,
    "qwen2_5_omni_thinker": Qwen2_5OmniThinkerForConditionalGeneration,
}


def _has_vision(config: object) -> bool:
    return hasattr(getattr(config, "thinker_config", config), "vision_config")


def _has_audio(config: object) -> bool:
    return hasattr(getattr(config, "thinker_config", config), "audio_config")
