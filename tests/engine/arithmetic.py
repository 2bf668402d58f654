"""A "model" of plain arithmetic behind the engine: a token is a hash of all keys and values that it attends
to, and these are hashes of what they stand for and of those before them.

Its pages are a shadow of the pool, read and written by block id. So any confusion in the cache (a block of
another prompt, of the same words after others, of another picture, of another tenant, or one never written)
gives a wrong token or fails at once.
"""

import numpy as np

from engine.messages import TokenLogprobs
from engine.request import Sequence
from engine.step import RowFault, SampledToken
from kvcache.encodings import EncodingId
from models.processing.base import MediaLayout, PositionTable

VOCAB_SIZE = 97
BLOCK_SIZE = 4


class ArithmeticProcessing:
    """Positions count up; pictures are causal, sounds are not."""

    kinds = frozenset({"image", "audio"})
    image_options: frozenset[str] = frozenset()
    bidirectional_kinds = frozenset({"audio"})
    completes_prompts = False
    media_margin = ""
    fingerprint = "arithmetic"
    sampling_rate = 16000

    def positions(self, num_tokens, spans, items):
        assert len(spans) == len(items)
        return PositionTable(np.arange(num_tokens)[None], num_tokens)


def prepared(key: bytes) -> dict[str, np.ndarray]:
    return {"pixels": np.frombuffer(key, dtype=np.uint8)}


def encoded(arrays: dict[str, np.ndarray]) -> int:
    return int.from_bytes(arrays["pixels"].tobytes()[:8], "little")


def entry(before: int, position: int, token: int, media: tuple[int, int] | None) -> int:
    """The key and value of one token. before: those of the one before it, 0 for the first. media: the
    encoding, and which of its rows."""
    return hash((before, position, token, *(media or ())))


def next_token(entries: list[int], choice: int) -> int:
    return hash((choice, *entries)) % VOCAB_SIZE


def lone_run(request, choice: int, num_tokens: int) -> list[int]:
    """What the request gets with nothing else in the house: no engine involved. request:
    messages.Generate."""
    ids = np.frombuffer(request.ids, "<i4").tolist()
    media: dict[int, tuple[int, int]] = {}
    for start, end, index, offset in request.spans:
        value = encoded(prepared(request.media[index].key))
        media |= {i: (value, offset + i - start) for i in range(start, end)}
    entries: list[int] = []
    answer = []
    for i in range(len(ids) + num_tokens):
        if i >= len(ids):
            answer.append(next_token(entries, choice))
        token = ids[i] if i < len(ids) else answer[-1]
        entries.append(entry(entries[-1] if entries else 0, i, token, media.get(i)))
    return answer


class DeviceLost(RuntimeError):
    pass


class ArithmeticRunner:
    """raise_in_copy: raised instead of copying. fail_encoding: keys that the encoder refuses.

    break_on: request ids whose rows make the whole step raise. break_together: every step of more than one
    row raises. fault_on: request ids whose rows report a fault of their own.
    """

    def __init__(self, num_blocks: int) -> None:
        self.pages: list[int | None] = [None] * (num_blocks * BLOCK_SIZE)
        self.encodings: dict[EncodingId, int] = {}
        self.fail_encoding: set[bytes] = set()
        self.raise_in_copy: Exception | None = None
        self.raise_in_encode = False
        self.break_on: set[str] = set()
        self.fault_on: set[str] = set()
        self.break_together = False
        self.device_lost = False
        self.num_encoded: dict[EncodingId, int] = {}
        self.num_rows = 0

    def encoding_size_bytes(self, layout) -> int:
        assert isinstance(layout, MediaLayout)
        return layout.num_tokens

    def drop_encodings(self, encodings) -> None:
        for encoding in encodings:
            del self.encodings[encoding]

    def copy_blocks(self, copies):
        if self.raise_in_copy:
            raise self.raise_in_copy
        read = [self._block(copy.source) for copy in copies]
        for copy, values in zip(copies, read, strict=True):
            start = copy.target * BLOCK_SIZE
            self.pages[start : start + BLOCK_SIZE] = values

    def _block(self, block):
        return self.pages[block * BLOCK_SIZE : (block + 1) * BLOCK_SIZE]

    def encode(self, item):
        if self.raise_in_encode:
            raise MemoryError
        assert item.encoding not in self.encodings, "encoded though it is held"
        if item.encoding.key in self.fail_encoding:
            raise ValueError("no encoding")
        self.encodings[item.encoding] = encoded(item.arrays)
        self.num_encoded[item.encoding] = self.num_encoded.get(item.encoding, 0) + 1

    def execute(self, rows):
        if self.device_lost:
            raise DeviceLost
        culprits = [row for row in rows if row.sequence.request.request_id in self.break_on]
        breaks = bool(culprits) or (self.break_together and len(rows) > 1)
        for row in rows:
            self._write(row, garbage=breaks)
        if breaks:
            raise RuntimeError("the step failed as a whole")
        self.num_rows += len(rows)
        return {row.sequence.number: self._sample(row) for row in rows if row.samples}

    def _write(self, row, garbage: bool) -> None:
        sequence: Sequence = row.sequence
        for first, last in sequence.request.indivisible:
            assert not first < row.start < last
            assert not first < row.end < last
        media = {}
        for span in sequence.tokens.spans_within(row.start, row.end):
            value = self.encodings[EncodingId(sequence.request.namespace, span.key)]
            media |= {
                row.start + i: (value, span.offset + i - span.start) for i in range(span.start, span.end)
            }
        value = self.pages[self._slot(row, row.start - 1)] if row.start else 0
        for i in range(row.start, row.end):
            assert value is not None, "what a row goes on from was never written"
            value = -1 if garbage else entry(value, i, sequence.tokens.ids[i], media.get(i))
            self.pages[self._slot(row, i)] = value

    def _sample(self, row):
        if row.sequence.request.request_id in self.fault_on:
            return RowFault("not finite")
        entries = [self.pages[self._slot(row, i)] for i in range(row.end)]
        assert all(value is not None for value in entries), "a slot was read that was never written"
        return SampledToken(next_token(entries, row.sequence.choice), TokenLogprobs(-1.0))

    def _slot(self, row, index: int) -> int:
        return row.block_table[index // BLOCK_SIZE] * BLOCK_SIZE + index % BLOCK_SIZE
