"""Models of text alone: a decoder and nothing else."""

from collections.abc import Sequence
from typing import Any

import torch

from models.checkpoint import Checkpoint
from models.decoder import Decoder, DecoderConfig
from models.interface import EncoderInput, ForwardBatch, MediaRows, PagedAttention
from models.processing.base import Processing
from models.weights import Weights


class TextModel:
    """`ServedModel` of a text checkpoint; also the base of those whose media simply replace embeddings."""

    def __init__(self, architecture: str, processing: Processing, decoder: Decoder, weights: Weights) -> None:
        self.architecture = architecture
        self.processing = processing
        self.decoder = decoder
        self.attention = decoder.config.attention
        self.dtype, self.device = weights.dtype, weights.device
        self.vocab_size = decoder.config.vocab_size
        self.max_positions = decoder.config.max_positions
        self.encoding_width = decoder.config.hidden_size

    @classmethod
    def load(
        cls,
        checkpoint: Checkpoint,
        config: Any,
        weights: Weights,
        processing: Processing,
        dtype: torch.dtype,
        device: torch.device,
    ) -> "TextModel":
        """config: the transformers configuration of the whole checkpoint."""
        decoder = Decoder(DecoderConfig.from_text_config(config), weights, "model.")
        return cls(checkpoint.architecture, processing, decoder, weights)

    def encode(self, kind: str, items: Sequence[EncoderInput]) -> list[torch.Tensor]:
        raise ValueError(f"{self.architecture} has no encoder for {kind}")

    def forward(self, batch: ForwardBatch, attention: PagedAttention) -> torch.Tensor:
        hidden = replace_rows(self.decoder.embed(batch.ids), batch.media)
        return self.decoder(hidden, batch.positions, attention)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.decoder.logits(hidden)


def replace_rows(hidden: torch.Tensor, media: Sequence[MediaRows]) -> torch.Tensor:
    """Put each encoding in the place of its rows of hidden [rows, width], which is changed and returned."""
    for rows in media:
        hidden[rows.start : rows.end] = rows.encoding
    return hidden
