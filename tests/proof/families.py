"""The families under proof: a tiny checkpoint of each, and how media stand in its prompts."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

import torch
from tokenizers import Tokenizer

from models.checkpoint import Checkpoint
from models.interface import ServedModel
from models.loader import load_model
from tests import (
    checkpoints,
    checkpoints_gemma,
    checkpoints_llava,
    checkpoints_qwen,
    checkpoints_qwen_audio,
)
from tests.proof.gemma_reference import GemmaReference
from tests.proof.llava_reference import LlavaReference
from tests.proof.prompts import picture, sound, words
from tests.proof.reference import Piece, Reference
from tests.proof.ultravox_reference import UltravoxReference

TEXT = range(3, 200)
"""Token ids that are plain text in every tiny checkpoint."""


class Oracle(Protocol):
    def log_probs(self, pieces: Sequence[Piece], continuation: Sequence[int] = ()) -> torch.Tensor:
        """float32 [1 + len(continuation), vocab], from the prompt's last token on."""
        ...


class Family(NamedTuple):
    """indivisible: tokens of a span that is computed in one step, since it sees itself in both directions; 0
    where spans may be cut anywhere."""

    make: Callable[[Path], object]
    kinds: tuple[str, ...]
    reference: Callable[[Path], Oracle] = Reference
    indivisible: int = 0


FAMILIES = {
    "llama": Family(checkpoints.tiny_llama, ()),
    "mistral": Family(checkpoints.tiny_mistral, ()),
    "qwen2": Family(checkpoints.tiny_qwen2, ()),
    "qwen3": Family(checkpoints.tiny_qwen3, ()),
    "gemma3_text": Family(checkpoints_gemma.tiny_gemma3_text, ()),
    "gemma3": Family(checkpoints_gemma.tiny_gemma3, ("image",), GemmaReference, checkpoints_gemma.TOKENS),
    "qwen2_vl": Family(checkpoints_qwen.tiny_qwen2_vl, ("image",)),
    "qwen2_5_vl": Family(checkpoints_qwen.tiny_qwen2_5_vl, ("image",)),
    "qwen3_vl": Family(checkpoints_qwen.tiny_qwen3_vl, ("image",)),
    "qwen2_5_omni": Family(checkpoints_qwen.tiny_qwen2_5_omni, ("image", "audio")),
    "qwen2_audio": Family(checkpoints_qwen_audio.tiny_qwen2_audio, ("audio",)),
    "llava": Family(checkpoints_llava.tiny_llava, ("image",), LlavaReference),
    "ultravox": Family(checkpoints.tiny_ultravox, ("audio",), UltravoxReference),
}

_directories = TemporaryDirectory(prefix="intarsia-proof-")


@cache
def directory(name: str) -> Path:
    path = Path(_directories.name) / name
    path.mkdir()
    FAMILIES[name].make(path)
    return path


@cache
def reference(name: str) -> Oracle:
    return FAMILIES[name].reference(directory(name))


@cache
def model(name: str, backend: str = "", device: str = "cpu") -> ServedModel:
    """One for each back end, since a back end may install itself in the decoder."""
    return load_model(
        Checkpoint.open(str(directory(name))), dtype="float32", device=device, load_format="auto"
    )


def steps_of(name: str, chunk: int, max_num_seqs: int = 1) -> int:
    """`chunk` tokens a step, or as many more as the family's indivisible spans need among so many others."""
    indivisible = FAMILIES[name].indivisible
    return max(chunk, indivisible + max_num_seqs - 1) if indivisible else chunk


@cache
def forbidden(name: str) -> dict[int, float]:
    """Bias against added tokens: the reference refuses a media token without media."""
    file = Checkpoint.open(str(directory(name))).tokenizer_file
    assert file is not None
    added = Tokenizer.from_file(str(file)).get_added_tokens_decoder()
    return dict.fromkeys(added, -100.0)


def media(name: str, kind: str, seed: int, size: float = 1.0) -> list[Piece]:
    """A picture or sound of the family with the tokens that its template puts around it."""
    if kind == "image":
        before, after = _around(name, "vision_start_token_id", "vision_end_token_id")
        return [*before, picture(seed, round(100 * size), round(84 * size)), *after]
    before, after = _around(name, "audio_start_token_id", "audio_end_token_id")
    return [*before, sound(seed, 1.3 * size), *after]


def _around(name: str, start: str, end: str) -> tuple[list[Piece], list[Piece]]:
    config = Checkpoint.open(str(directory(name))).config
    config = config.get("thinker_config", config)
    return [config[key] for key in (start,) if key in config], [
        config[key] for key in (end,) if key in config
    ]


def mixes(name: str) -> dict[str, list[Piece]]:
    """Prompts with every mix of media that the family takes."""
    kinds = FAMILIES[name].kinds
    prompts: dict[str, list[Piece]] = {"text": words(1, 45, TEXT)}
    for kind in kinds:
        prompts[kind] = [*words(2, 21, TEXT), *media(name, kind, 1), *words(3, 11, TEXT)]
        prompts[f"several {kind}s"] = [
            *words(4, 5, TEXT),
            *media(name, kind, 1),
            *media(name, kind, 2, 0.7),
            *words(5, 9, TEXT),
            *media(name, kind, 3, 0.5),
            *words(6, 4, TEXT),
        ]
    if len(kinds) > 1:
        prompts["both"] = [
            *words(7, 9, TEXT),
            *media(name, "audio", 1),
            *words(8, 7, TEXT),
            *media(name, "image", 1),
            *media(name, "audio", 2, 0.6),
            *words(9, 6, TEXT),
        ]
    return prompts
