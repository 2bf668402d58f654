"""A model that takes nothing but text, and what every model does with text: positions that count up."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from PIL import Image

from kvcache.spans import MediaSpan
from models.checkpoint import Checkpoint
from models.processing.base import MediaError, MediaLayout, Placeholder, PositionTable, PreparedMedia


def sequential_positions(num_tokens: int) -> PositionTable:
    """0, 1, 2, ... on one axis."""
    return PositionTable(np.arange(num_tokens, dtype=np.int64)[None], num_tokens)


class Marked(NamedTuple):
    """What templates write for one media item, and the id that stands for each of its tokens in a prompt."""

    marker: str
    token_id: int


class TextProcessing:
    """`Processing` of a text model; also the base of those that take media. placeholders: of each kind."""

    kinds: frozenset[str] = frozenset()
    placeholders: Mapping[str, Marked] = MappingProxyType({})
    image_options: frozenset[str] = frozenset()
    bidirectional_kinds: frozenset[str] = frozenset()
    completes_prompts = False
    media_margin = ""
    sampling_rate = 0
    fingerprint = "text"

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "TextProcessing":
        return cls()

    def marker(self, kind: str) -> str:
        return self._marked(kind).marker

    def image_layout(self, width: int, height: int, options: str = "") -> MediaLayout:
        raise _refused("image")

    def audio_layout(self, num_samples: int) -> MediaLayout:
        raise _refused("audio")

    def prepare_image(self, image: Image.Image, options: str = "") -> PreparedMedia:
        raise _refused("image")

    def prepare_audio(self, samples: np.ndarray) -> PreparedMedia:
        raise _refused("audio")

    def placeholder(self, kind: str, layout: MediaLayout) -> Placeholder:
        """All of its tokens stand for content."""
        count = layout.num_tokens
        return Placeholder([self._marked(kind).token_id] * count, [(0, count)])

    def positions(
        self, num_tokens: int, spans: Sequence[MediaSpan], items: Sequence[tuple[str, MediaLayout]]
    ) -> PositionTable:
        return sequential_positions(num_tokens)

    def _marked(self, kind: str) -> Marked:
        if kind not in self.placeholders:
            raise _refused(kind)
        return self.placeholders[kind]


def _refused(kind: str) -> MediaError:
    return MediaError(f"This model takes no {kind}.", "unsupported_media")
