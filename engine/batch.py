"""The rows of a step as the arrays that a model takes: ids, positions, and the media behind placeholders."""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import NamedTuple

import numpy as np
import torch

from engine.step import StepRow
from engine.transfer import sent
from kvcache.encodings import EncodingId
from models.interface import ForwardBatch, MediaRows


class HostBatch(NamedTuple):
    """A step's rows before they are on the device. ids int64 [rows], positions int64 [axes, rows]."""

    ids: np.ndarray
    positions: np.ndarray
    media: list[MediaRows]

    def on(self, device: torch.device) -> ForwardBatch:
        return ForwardBatch(sent(self.ids, device), sent(self.positions, device), self.media)


class BatchAssembler:
    """Fills buffers that live from step to step: what it returns is valid until the next call.

    encoding: the whole encoder output [num_tokens, encoding_width] of a media, KeyError if it isn't held.
    """

    def __init__(self, encoding: Callable[[EncodingId], torch.Tensor]) -> None:
        self._encoding = encoding
        self._ids = np.empty(0, dtype=np.int64)
        self._positions = np.empty((1, 0), dtype=np.int64)

    def assemble(self, rows: Seq[StepRow]) -> HostBatch:
        num_tokens = sum(row.end - row.start for row in rows)
        self._reserve(rows[0].sequence.request.positions.shape[0], num_tokens)
        media: list[MediaRows] = []
        at = 0
        for sequence, start, end, _, _ in rows:
            until = at + end - start
            if until == at + 1 and start >= sequence.num_prompt_tokens:  # most rows, and no media among them
                self._ids[at] = sequence.tokens.ids[start]
                self._positions[:, at] = sequence.answer_position(start)
                at = until
                continue
            self._ids[at:until] = sequence.tokens.ids[start:end]
            self._positions[:, at:until] = sequence.positions(start, end)
            for span in sequence.tokens.spans_within(start, end):
                whole = self._encoding(EncodingId(sequence.request.namespace, span.key))
                part = whole[span.offset : span.offset + span.num_tokens]
                media.append(MediaRows(at + span.start, at + span.end, part))
            at = until
        return HostBatch(self._ids[:num_tokens], self._positions[:, :num_tokens], media)

    def _reserve(self, num_axes: int, num_tokens: int) -> None:
        if len(self._ids) < num_tokens or self._positions.shape[0] != num_axes:
            self._ids = np.empty(2 * num_tokens, dtype=np.int64)
            self._positions = np.empty((num_axes, 2 * num_tokens), dtype=np.int64)
