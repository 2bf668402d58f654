"""One scheduling step, as the scheduler hands it to the runner, and what comes back."""

from collections.abc import Sequence as Seq
from typing import NamedTuple, Protocol

from engine.messages import TokenLogprobs
from engine.request import Sequence
from kvcache.encodings import EncodingId
from kvcache.match import BlockCopy
from models.processing.base import MediaLayout, PreparedMedia


class StepRow(NamedTuple):
    """Compute tokens [start, end) of a sequence in this step. samples: the last of them yields a new
    token."""

    sequence: Sequence
    start: int
    end: int
    block_table: Seq[int]
    samples: bool


class EncodeItem(NamedTuple):
    """Run the encoder for this media before the forward pass and keep the result under `encoding`."""

    encoding: EncodingId
    kind: str
    layout: MediaLayout
    arrays: PreparedMedia


class Step(NamedTuple):
    """evicted: encodings to drop before anything is encoded, since their room is taken. copies: what rows
    begin with inside a block; once, before anything is computed."""

    rows: list[StepRow]
    encode: list[EncodeItem]
    evicted: Seq[EncodingId] = ()
    copies: Seq[BlockCopy] = ()


class SampledToken(NamedTuple):
    token_id: int
    logprobs: TokenLogprobs | None


class RowFault(NamedTuple):
    """One row's own failure (non-finite logits, a broken grammar): only its request fails. code: as in
    `messages.RequestFailed`; unless it is "internal", the message is for the client."""

    message: str
    code: str = "internal"


class StepRunner(Protocol):
    """Turns a step into tokens. `Runner` does it with a model; tests of the scheduler with arithmetic."""

    def copy_blocks(self, copies: Seq[BlockCopy]) -> None:
        """All sources are read before any target is written."""
        ...

    def encode(self, item: EncodeItem) -> None:
        """Run the encoder and hold the result. Raises if it failed; then nothing is held."""
        ...

    def execute(self, rows: Seq[StepRow]) -> dict[int, SampledToken | RowFault]:
        """Forward and sample. Results by sequence number, for the rows with `samples`. Raises if the step as
        a whole failed."""
        ...

    def drop_encodings(self, encodings: Seq[EncodingId]) -> None:
        """Evicted by the scheduler's EncodingCache: free the tensors."""
        ...

    def encoding_size_bytes(self, layout: MediaLayout) -> int:
        """What the encoder's output for this layout takes in the encoding cache."""
        ...
