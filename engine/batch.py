"""The rows of a step as the arrays that a model takes: ids, positions, and the media behind placeholders."""

from collections.abc import Callable
from collections.abc import Sequence as Seq

import numpy as np
import torch

from engine.step import StepRow
from kvcache.encodings import EncodingId
from models.interface import ForwardBatch, MediaRows


class BatchAssembler:
    """Fills buffers that live from step to step: what it returns is valid until the next call.

    encoding: the whole encoder output [num_tokens, encoding_width] of a media, KeyError if it isn't held.
    """

    def __init__(self, encoding: Callable[[EncodingId], torch.Tensor], device: torch.device) -> None:
        self._encoding, self._device = encoding, device
        self._ids = np.empty(0, dtype=np.int64)
        self._positions = np.empty((1, 0), dtype=np.int64)

    def assemble(self, rows: Seq[StepRow]) -> ForwardBatch:
        num_tokens = sum(row.end - row.start for row in rows)
        self._reserve(rows[0].sequence.request.positions.shape[0], num_tokens)
        media: list[MediaRows] = []
        at = 0
        for sequence, start, end, _, _ in rows:
            until = at + end - start
            self._ids[at:until] = sequence.tokens.ids[start:end]
            self._positions[:, at:until] = sequence.positions(start, end)
            for span in sequence.tokens.spans_within(start, end):
                whole = self._encoding(EncodingId(sequence.request.namespace, span.key))
                part = whole[span.offset : span.offset + span.num_tokens]
                media.append(MediaRows(at + span.start, at + span.end, part))
            at = until
        ids = torch.from_numpy(self._ids[:num_tokens]).to(self._device)
        positions = torch.from_numpy(self._positions[:, :num_tokens]).to(self._device)
        return ForwardBatch(ids, positions, media)

    def _reserve(self, num_axes: int, num_tokens: int) -> None:
        if len(self._ids) < num_tokens or self._positions.shape[0] != num_axes:
            self._ids = np.empty(2 * num_tokens, dtype=np.int64)
            self._positions = np.empty((num_axes, 2 * num_tokens), dtype=np.int64)
