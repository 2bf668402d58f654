"""Qwen3-VL: a Qwen3 decoder with three-axis positions, and a vision tower that several of its layers read.

DeepStack (arXiv 2406.04334): what replaces a placeholder is followed by rows of earlier layers of the tower,
which are added to its hidden states after the first layers of the decoder.
"""

from typing import Any, Self

import torch

from models.checkpoint import Checkpoint
from models.families.qwen2_vl import Qwen2VLModel
from models.families.text import replace_rows
from models.interface import AddedRows, ForwardBatch, PagedAttention
from models.processing.qwen2_vl import Qwen2VLProcessing
from models.weights import Weights

_SECTIONS = [24, 20, 20]
"""Of the frequencies, where a configuration doesn't say."""


class Qwen3VLModel(Qwen2VLModel):
    """`ServedModel` of a dense Qwen3-VL."""

    @classmethod
    def load(
        cls, checkpoint: Checkpoint, config: Any, weights: Weights, processing: Qwen2VLProcessing
    ) -> Self:
        text = config.text_config
        sections = text.rope_parameters.get("mrope_section", _SECTIONS)
        text.rope_parameters |= {"mrope_section": sections, "mrope_interleaved": True}
        return super().load(checkpoint, config, weights, processing)

    def forward(self, batch: ForwardBatch, attention: PagedAttention) -> torch.Tensor:
        first, added = [], []
        for rows in batch.media:
            row, *deeper = rows.encoding.split(self.decoder.config.hidden_size, dim=1)
            first.append(rows._replace(encoding=row))
            added += [AddedRows(layer, rows.start, values) for layer, values in enumerate(deeper)]
        hidden = replace_rows(self.decoder.embed(batch.ids), first)
        return self.decoder(hidden, batch.positions, attention, added, batch.read)
