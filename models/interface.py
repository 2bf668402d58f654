"""What the engine and a model family promise each other: families implement `ServedModel`."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch

from models.processing.base import MediaLayout, Processing


class AttentionSpec(NamedTuple):
    """What a model asks of attention. windows: for each layer, how many keys a row sees, None for all."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float
    windows: tuple[int | None, ...]

    @property
    def num_layers(self) -> int:
        return len(self.windows)


class PagedAttention(Protocol):
    """One planned step of a paged back end."""

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Write k, v [rows, kv_heads, head_dim] at the rows' slots; attend from q [rows, heads, head_dim].

        Returns [rows, heads, head_dim]. Every key of the step is written before any row attends."""
        ...


class AddedRows(NamedTuple):
    """After layer number `layer`, `values` [n, hidden_size] are added to the n rows from `start` on."""

    layer: int
    start: int
    values: torch.Tensor


class FusedDecoder(Protocol):
    """Runs all layers of a decoder in one call; installed by the engine where there is one."""

    def accepts(self, attention: PagedAttention) -> bool: ...

    def run(
        self,
        hidden: torch.Tensor,
        positions: torch.Tensor,
        attention: PagedAttention,
        added: Sequence[AddedRows],
        read: torch.Tensor | None,
    ) -> torch.Tensor:
        """As `Decoder` is called."""
        ...

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The output head: [n, hidden_size] -> float32 [n, vocab_size]."""
        ...


class PackedMatrix(Protocol):
    """A weight [out, in] that the engine keeps in an order of its own, in place of the tensor."""

    def __call__(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """x [rows, in] -> x times the weight, plus bias: [rows, out], dtype of x."""
        ...


class MediaRows(NamedTuple):
    """Rows [start, end) are placeholders for what `encoding` [end - start, encoding_width] holds."""

    start: int
    end: int
    encoding: torch.Tensor


class ForwardBatch(NamedTuple):
    """The flattened rows of a step: ids int64 [rows], positions int64 [axes, rows], media sorted by start.

    read: int64 [n], ascending, the rows whose hidden states are wanted; None for all."""

    ids: torch.Tensor
    positions: torch.Tensor
    media: Sequence[MediaRows]
    read: torch.Tensor | None = None


class EncoderInput(NamedTuple):
    """One picture or sound for the encoder: prepared arrays on the model's device, and its layout."""

    arrays: dict[str, torch.Tensor]
    layout: MediaLayout


class ServedModel(Protocol):
    """A loaded checkpoint."""

    architecture: str
    processing: Processing
    attention: AttentionSpec
    dtype: torch.dtype
    device: torch.device
    vocab_size: int
    max_positions: int
    """The longest sequence, in tokens, that the checkpoint was made for."""
    encoding_width: int
    """Elements that the encoder returns for each media token: the hidden size, or more for later layers."""

    def encode(self, kind: str, items: Sequence[EncoderInput]) -> list[torch.Tensor]:
        """Encode each item alone and whole: [layout.num_tokens, encoding_width] each, dtype of the model."""
        ...

    def forward(self, batch: ForwardBatch, attention: PagedAttention) -> torch.Tensor:
        """Embed, merge media, run the decoder: hidden states after the final norm of the rows that are read,
        [n, hidden_size]."""
        ...

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[n, hidden_size] -> float32 [n, vocab_size]."""
        ...
