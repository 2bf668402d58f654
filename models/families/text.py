"""Models of text alone: a decoder and nothing else."""

from collections.abc import Sequence
from typing import Any, Self

import torch

from models.checkpoint import Checkpoint
from models.decoder import Decoder
from models.decoder_config import DecoderConfig
from models.interface import EncoderInput, ForwardBatch, MediaRows, PagedAttention
from models.processing.base import Processing
from models.weights import Weights


class TextModel:
    """`ServedModel` of a text checkpoint; also the base of those whose media simply replace embeddings.

    A subclass loads its encoders and says in `encode_one` what becomes of one picture or sound.
    """

    def __init__(self, checkpoint: Checkpoint, processing: Processing, decoder: Decoder) -> None:
        self.architecture = checkpoint.architecture
        self.processing = processing
        self.decoder = decoder
        self.attention = decoder.config.attention
        self.dtype, self.device = decoder.embedding.dtype, decoder.embedding.device
        self.vocab_size = decoder.config.vocab_size
        self.max_positions = decoder.config.max_positions
        self.encoding_width = decoder.config.hidden_size

    @classmethod
    def load(cls, checkpoint: Checkpoint, config: Any, weights: Weights, processing: Any) -> Self:
        """config: the transformers configuration of the whole checkpoint; None if it knows no such type.
        processing: of the same family. CheckpointError where a tensor is missing or misshapen."""
        decoder = Decoder(DecoderConfig.from_text_config(config), weights, "model.")
        return cls(checkpoint, processing, decoder)

    def encode(self, kind: str, items: Sequence[EncoderInput]) -> list[torch.Tensor]:
        """[num_tokens, hidden_size] each; one by one, so that none depends on its neighbours."""
        return [self.encode_one(kind, item) for item in items]

    def encode_one(self, kind: str, item: EncoderInput) -> torch.Tensor:
        """[num_tokens, hidden_size]."""
        raise ValueError(f"{self.architecture} has no encoder for {kind}")

    def forward(self, batch: ForwardBatch, attention: PagedAttention) -> torch.Tensor:
        hidden = replace_rows(self.decoder.embed(batch.ids), batch.media)
        return self.decoder(hidden, batch.positions, attention, read=batch.read)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.decoder.logits(hidden)


def replace_rows(hidden: torch.Tensor, media: Sequence[MediaRows]) -> torch.Tensor:
    """Put each encoding in the place of its rows of hidden [rows, width], which is changed and returned."""
    for rows in media:
        hidden[rows.start : rows.end] = rows.encoding
    return hidden
