"""Prompts in pieces, as the engine takes them: ids, spans and media known by key and layout."""

import io
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

from engine.messages import Generate, MediaItem, SamplingParams
from kvcache.keys import MediaKey, content_digest, media_key
from models.processing.base import MediaLayout, PreparedMedia, Processing
from tests.proof.reference import Picture, Piece, Sound

_numbers = itertools.count()


class Prompt(NamedTuple):
    """request: what the engine is asked. media: the tensors behind each key, should the engine need them."""

    request: Generate
    media: dict[bytes, Picture | Sound]

    @property
    def ids(self) -> list[int]:
        return np.frombuffer(self.request.ids, dtype="<i4").tolist()


def build(
    pieces: Sequence[Piece],
    processing: Processing,
    *,
    max_tokens: int = 6,
    num_choices: int = 1,
    namespace: bytes = b"",
    **sampling: object,
) -> Prompt:
    """The engine's request for a prompt in pieces; greedy, every log-probability reported, no stop tokens."""
    ids: list[int] = []
    spans: list[tuple[int, int, int, int]] = []
    items: list[MediaItem] = []
    media: dict[bytes, Picture | Sound] = {}
    for piece in pieces:
        if isinstance(piece, int):
            ids.append(piece)
            continue
        item = media_item(piece, processing)
        placeholder = processing.placeholder(item.kind, item.layout)
        offset = 0
        for start, end in placeholder.runs:
            spans.append((len(ids) + start, len(ids) + end, len(items), offset))
            offset += end - start
        ids += placeholder.ids
        items.append(item)
        media[item.key] = piece
    params = {"temperature": 0.0, "num_top_logprobs": 20} | sampling
    request = Generate(
        request_id=f"proof-{next(_numbers)}",
        ids=np.asarray(ids, dtype="<i4").tobytes(),
        namespace=namespace,
        sampling=SamplingParams(max_tokens=max_tokens, **params),  # type: ignore[arg-type]
        num_choices=num_choices,
        spans=tuple(spans),
        media=tuple(items),
    )
    return Prompt(request, media)


def media_item(piece: Picture | Sound, processing: Processing) -> MediaItem:
    layout: MediaLayout
    if isinstance(piece, Picture):
        buffer = io.BytesIO()
        piece.image.save(buffer, "PNG")
        kind, encoded = "image", buffer.getvalue()
        layout = processing.image_layout(*piece.image.size)
    else:
        kind, encoded = "audio", piece.samples.tobytes()
        layout = processing.audio_layout(len(piece.samples))
    key: MediaKey = media_key(kind, content_digest(encoded), processing.fingerprint)
    return MediaItem(key=key, kind=kind, layout=layout)


def prepare(piece: Picture | Sound, processing: Processing) -> PreparedMedia:
    if isinstance(piece, Picture):
        return processing.prepare_image(piece.image)
    return processing.prepare_audio(piece.samples)


def picture(seed: int, width: int = 64, height: int = 48) -> Picture:
    """A picture of coarse random blocks: two seeds look very different to any encoder."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Picture(Image.fromarray(coarse).resize((width, height), Image.Resampling.NEAREST))


def sound(seed: int, seconds: float = 1.0) -> Sound:
    """A chord of a few random tones, swelling: two seeds sound very different to any encoder."""
    rng = np.random.default_rng(seed)
    time = np.arange(int(seconds * 16_000)) / 16_000
    tones = [np.sin(2 * np.pi * rng.uniform(100, 4000) * time + rng.uniform(0, 6)) for _ in range(4)]
    envelope = np.abs(np.sin(2 * np.pi * rng.uniform(1, 5) * time))
    return Sound((sum(tones) * envelope / 4).astype(np.float32))


def words(seed: int, count: int, vocab: range) -> list[int]:
    """Random text tokens out of `vocab`."""
    rng = np.random.default_rng(seed)
    return rng.integers(vocab.start, vocab.stop, count).tolist()
