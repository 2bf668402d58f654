"""What a family answers about media without its weights. Nothing else in the program asks which model it
is."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from PIL import Image

from kvcache.spans import MediaSpan

PreparedMedia = dict[str, np.ndarray]
"""The arrays that the family's encoder wants for one picture or sound, by the encoder's own names."""


class MediaLayout(msgspec.Struct, frozen=True):
    """What the size of a picture or the length of a sound decides, before anything is prepared.

    num_tokens: placeholder tokens that stand for content (break tokens not counted).
    grid: (frames, rows, columns) in encoder patches for pictures, else zeros.
    """

    num_tokens: int
    grid: tuple[int, int, int] = (0, 0, 0)


class Placeholder(NamedTuple):
    """The token ids that replace one media marker of the template, and which ranges of them stand for
    content."""

    ids: list[int]
    runs: list[tuple[int, int]]


class PositionTable(NamedTuple):
    """ids: int64 [axes, num_tokens] rotary positions of a whole prompt. next_position: that of the first
    generated token."""

    ids: np.ndarray
    next_position: int


class MediaError(ValueError):
    """Media that this model can't take. `code` is a published error code (say `image_too_small`)."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Processing(Protocol):
    """Layout, preparation and positions of one checkpoint. Thread-safe: called from worker threads."""

    kinds: frozenset[str]
    """Which of "image" and "audio" the checkpoint takes; empty for a text model."""
    fingerprint: str
    """Names processor, settings and the library versions that shape its output: part of every MediaKey."""
    sampling_rate: int
    """Hz, of the samples that `prepare_audio` takes; 0 without audio."""
    image_options: frozenset[str]
    """The option texts that change what a picture becomes; under any other it is the picture without
    options."""
    bidirectional_kinds: frozenset[str]
    """Kinds whose spans attend within themselves in both directions; such a span is never split across
    steps."""
    completes_prompts: bool
    """What the tokenizer puts before every text (`<s>`, say) also goes before a rendered chat that does not
    begin with it, as the published processor does; a tokenizer alone never adds to a template."""
    media_margin: str
    """What the published processor writes on both sides of every media marker of a rendered chat: text, which
    becomes tokens together with what stands beside it."""

    def marker(self, kind: str) -> str:
        """The text that the checkpoint's template uses, or that is put into the content, for one media
        item."""
        ...

    def image_layout(self, width: int, height: int, options: str = "") -> MediaLayout:
        """Layout from pixels of the upright image. MediaError (`image_too_small`, ...) where the model
        can't take it.

        options: "" or one of `image_options`; the same text goes into the MediaKey."""
        ...

    def audio_layout(self, num_samples: int) -> MediaLayout:
        """Layout from samples at `sampling_rate`. MediaError `audio_too_short` / `audio_too_long`."""
        ...

    def prepare_image(self, image: Image.Image, options: str = "") -> PreparedMedia:
        """image: RGB, upright. Equal to the checkpoint's own image processor."""
        ...

    def prepare_audio(self, samples: np.ndarray) -> PreparedMedia:
        """samples: float32 [num_samples], mono, at `sampling_rate`. Equal to the checkpoint's own feature
        extractor."""
        ...

    def placeholder(self, kind: str, layout: MediaLayout) -> Placeholder: ...

    def positions(
        self, num_tokens: int, spans: Sequence[MediaSpan], items: Sequence[tuple[str, MediaLayout]]
    ) -> PositionTable:
        """items[i] is the (kind, layout) behind spans[i]. Computed from layouts alone, so a covered span
        needs no media."""
        ...
