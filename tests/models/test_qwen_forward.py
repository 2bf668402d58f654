"""Whole checkpoints against transformers, fp32: positions, and log-probabilities of every prompt token."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from kvcache.keys import MediaKey
from kvcache.spans import MediaSpan
from models.checkpoint import Checkpoint, CheckpointError
from models.interface import EncoderInput, ForwardBatch, MediaRows, ServedModel
from models.loader import load_model
from models.processing.base import MediaLayout, PositionTable
from tests import checkpoints_qwen as tiny
from tests.models.dense_attention import DenseAttention
from tests.proof.prompts import picture, prepare, sound, words
from tests.proof.reference import Picture, Piece, Reference, Sound

TOLERANCE = 1e-4
SENSITIVITY = 0.1
"""How far a mistake must move some log-probability, for a test within TOLERANCE to mean anything."""


class Pair(NamedTuple):
    """One checkpoint, as this program and as transformers run it."""

    path: Path
    model: ServedModel
    reference: Reference
    tokens: dict[str, int]


class Layout(NamedTuple):
    ids: list[int]
    spans: list[MediaSpan]
    items: list[tuple[str, MediaLayout]]
    encodings: list[torch.Tensor]


BUILDERS: dict[str, Callable[[Path], Path]] = {
    "qwen2_vl": tiny.tiny_qwen2_vl,
    "qwen2_5_vl": tiny.tiny_qwen2_5_vl,
    "qwen3_vl": tiny.tiny_qwen3_vl,
    "qwen2_5_omni": tiny.tiny_qwen2_5_omni,
    "qwen2_5_omni_thinker": tiny.tiny_qwen2_5_omni_thinker,
}


@pytest.fixture(scope="module", params=BUILDERS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    path = BUILDERS[request.param](tmp_path_factory.mktemp(request.param))
    names = tiny.OMNI_TOKENS if "omni" in request.param else tiny.VL_TOKENS
    added = json.loads((path / "tokenizer.json").read_text())["added_tokens"]
    ids = {token["content"]: token["id"] for token in added}
    tokens = {name: ids[token] for name, token in names.items()}
    return Pair(path, load_model(Checkpoint.open(str(path))), Reference(path), tokens)


def text(seed: int, count: int = 7) -> list[int]:
    return words(seed, count, range(256))


def bracketed(pair: Pair, *media: Picture | Sound) -> list[Piece]:
    """Text, then each media between its brackets with text after it."""
    pieces: list[Piece] = [*text(0)]
    for number, item in enumerate(media):
        kind = "vision" if isinstance(item, Picture) else "audio"
        pieces += [pair.tokens[f"{kind}_start"], item, pair.tokens[f"{kind}_end"], *text(number + 1)]
    return pieces


def laid_out(pair: Pair, pieces: Sequence[Piece]) -> Layout:
    processing = pair.model.processing
    out = Layout([], [], [], [])
    for piece in pieces:
        if isinstance(piece, int):
            out.ids.append(piece)
            continue
        if isinstance(piece, Picture):
            kind, layout = "image", processing.image_layout(*piece.image.size)
        else:
            kind, layout = "audio", processing.audio_layout(len(piece.samples))
        arrays = {name: torch.from_numpy(a) for name, a in prepare(piece, processing).items()}
        (encoding,) = pair.model.encode(kind, [EncoderInput(arrays, layout)])
        assert encoding.shape == (layout.num_tokens, pair.model.encoding_width)
        placeholder = processing.placeholder(kind, layout)
        assert placeholder.runs == [(0, layout.num_tokens)]
        start = len(out.ids)
        out.spans.append(MediaSpan(start, start + layout.num_tokens, MediaKey(b"")))
        out.items.append((kind, layout))
        out.encodings.append(encoding)
        out.ids.extend(placeholder.ids)
    return out


def positions(pair: Pair, layout: Layout) -> PositionTable:
    return pair.model.processing.positions(len(layout.ids), layout.spans, layout.items)


@torch.inference_mode()
def log_probs(pair: Pair, layout: Layout, table: PositionTable) -> torch.Tensor:
    rows = [MediaRows(s.start, s.end, e) for s, e in zip(layout.spans, layout.encodings, strict=True)]
    batch = ForwardBatch(torch.tensor(layout.ids), torch.from_numpy(table.ids), rows)
    hidden = pair.model.forward(batch, DenseAttention(pair.model.attention))
    return torch.log_softmax(pair.model.logits(hidden), dim=-1)


@torch.no_grad()
def reference_outputs(pair: Pair, pieces: Sequence[Piece]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """transformers' log-probabilities [tokens, vocab], positions [3, tokens] and position delta."""
    ids, inputs = pair.reference.ids_and_inputs(pieces)
    tokens = torch.tensor([ids])
    inputs["attention_mask"] = torch.ones_like(tokens)
    if pair.reference.is_vl:
        inputs["mm_token_type_ids"] = (tokens == pair.reference.image_token).int()
    model = pair.reference.model
    logits = model(input_ids=tokens, **inputs).logits[0]
    wanted = {"attention_mask", "mm_token_type_ids", "image_grid_thw"}
    arguments = {name: value for name, value in inputs.items() if name in wanted}
    if "input_features" in inputs:
        arguments["audio_seqlens"] = inputs["feature_attention_mask"].sum(-1)
    table, delta = model.model.get_rope_index(tokens, **arguments)
    return torch.log_softmax(logits, dim=-1), table[:, 0], delta[0, 0]


PICTURES = [picture(1, 140, 112), picture(2, 61, 200), picture(3, 1, 1), picture(4, 333, 97)]
SOUNDS = [sound(1, 1.0), sound(2, 0.1), sound(3, 5.37)]
MEDIA = {
    "text": [],
    "image": PICTURES[:1],
    "many images": PICTURES,
    "audio": SOUNDS[:1],
    "many sounds": SOUNDS,
    "image, audio": [PICTURES[0], SOUNDS[0]],
    "audio, image": [SOUNDS[1], PICTURES[1]],
    "any order": [PICTURES[3], SOUNDS[2], SOUNDS[0], PICTURES[1], PICTURES[0], SOUNDS[1]],
}


@pytest.mark.parametrize("case", MEDIA)
def test_forward_and_positions_equal_the_reference(pair: Pair, case: str) -> None:
    if pair.reference.is_vl and any(isinstance(item, Sound) for item in MEDIA[case]):
        pytest.skip("takes no audio")
    pieces = bracketed(pair, *MEDIA[case])
    layout = laid_out(pair, pieces)
    expected, table, delta = reference_outputs(pair, pieces)
    own = positions(pair, layout)
    np.testing.assert_array_equal(own.ids, table.numpy())
    assert own.next_position == len(layout.ids) + int(delta)
    torch.testing.assert_close(log_probs(pair, layout, own), expected, atol=TOLERANCE, rtol=0)


def test_media_may_end_the_prompt(pair: Pair) -> None:
    pieces = bracketed(pair, PICTURES[1])[:-8]
    assert isinstance(pieces[-1], Picture)
    layout = laid_out(pair, pieces)
    table = positions(pair, layout)
    assert table.next_position == table.ids.max() + 1


@pytest.mark.parametrize("make", [lambda seed: picture(seed, 140, 112), sound], ids=["pictures", "sounds"])
def test_swapped_media_move_the_answer(pair: Pair, make: Callable[[int], Picture | Sound]) -> None:
    media = make(1), make(2)
    if pair.reference.is_vl and isinstance(media[0], Sound):
        pytest.skip("takes no audio")
    layout = laid_out(pair, bracketed(pair, *media))
    table = positions(pair, layout)
    swapped = layout._replace(encodings=layout.encodings[::-1])
    assert moved(log_probs(pair, layout, table), log_probs(pair, swapped, table)) >= SENSITIVITY


def test_shifted_positions_move_the_answer(pair: Pair) -> None:
    layout = laid_out(pair, bracketed(pair, PICTURES[0]))
    table = positions(pair, layout)
    right = log_probs(pair, layout, table)
    flat = table._replace(ids=np.broadcast_to(np.arange(len(layout.ids)), table.ids.shape).copy())
    late = table._replace(ids=table.ids.copy())
    late.ids[:, layout.spans[0].end :] += 1
    transposed = table._replace(ids=table.ids[[0, 2, 1]])
    for wrong in (flat, late, transposed):
        assert moved(right, log_probs(pair, layout, wrong)) >= SENSITIVITY


def test_the_modules_own_names_load_too(pair: Pair, tmp_path: Path) -> None:
    """`model.visual.*` and `model.language_model.*`, as some checkpoints on the hub have them."""
    copy_without_weights(pair.path, tmp_path)
    tensors = pair.reference.model.state_dict()
    assert any(name.startswith("model.language_model.") for name in tensors)
    save_file(tensors, tmp_path / "model.safetensors")
    layout = laid_out(pair, bracketed(pair, PICTURES[0]))
    renamed = pair._replace(model=load_model(Checkpoint.open(str(tmp_path))))
    again = laid_out(renamed, bracketed(pair, PICTURES[0]))
    table = positions(pair, layout)
    assert torch.equal(log_probs(pair, layout, table), log_probs(renamed, again, table))


def test_a_missing_tensor_is_named(pair: Pair, tmp_path: Path) -> None:
    copy_without_weights(pair.path, tmp_path)
    tensors = pair.reference.model.state_dict()
    last = [name for name in tensors if name.startswith("model.visual.merger.") and name.endswith("bias")][-1]
    tensors.pop(last)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=re.escape(last.removeprefix("model."))):
        load_model(Checkpoint.open(str(tmp_path)))


def test_random_weights_need_no_files(pair: Pair, tmp_path: Path) -> None:
    copy_without_weights(pair.path, tmp_path)
    model = load_model(Checkpoint.open(str(tmp_path)), load_format="random", dtype="bfloat16")
    layout = laid_out(pair._replace(model=model), bracketed(pair, PICTURES[0]))
    assert layout.encodings[0].dtype == torch.bfloat16
    assert layout.encodings[0].isfinite().all()


def copy_without_weights(source: Path, target: Path) -> None:
    for file in source.glob("*.json"):
        shutil.copy(file, target)


def moved(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a[-1] - b[-1]).abs().max())
