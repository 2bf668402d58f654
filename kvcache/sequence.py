"""A token sequence with its media spans: append-only, cut into blocks. Knows nothing of what is cached."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvcache.keys import MediaKey
from kvcache.spans import MediaSpan, clip

BLOCK_SIZE = 16
"""Tokens in a block of the cache, everywhere."""


Unit = tuple[int, MediaKey | None, int]
"""What one token is: its id, and the media and the part of it that it stands for."""


class TokenBlock(NamedTuple):
    """A block's token ids, and the spans within it, clipped (positions are relative to the block)."""

    ids: tuple[int, ...]
    spans: tuple[MediaSpan, ...]

    def units(self) -> list[Unit]:
        """What each token is: equal units after the same prefix have the same keys and values."""
        units: list[Unit] = [(token, None, 0) for token in self.ids]
        for span in self.spans:
            for at in range(span.start, span.end):
                units[at] = (self.ids[at], span.key, span.offset + at - span.start)
        return units


class TokenSequence:
    """Token ids and the spans of placeholder tokens among them.

    Spans are sorted, disjoint, non-empty and inside the sequence (ValueError otherwise). Appending a token
    and slicing after the last span cost the same however many spans there are, since both happen for every
    decoded token.
    """

    __slots__ = ("__weakref__", "_ends", "_last_end", "ids", "spans")

    def __init__(self, ids: Iterable[int], spans: Iterable[MediaSpan] = ()) -> None:
        self.ids: list[int] = list(ids)
        self.spans: tuple[MediaSpan, ...] = tuple(spans)
        _check_spans(self.spans, len(self.ids))
        self._ends = [span.end for span in self.spans]
        self._last_end = self._ends[-1] if self._ends else 0

    def __len__(self) -> int:
        return len(self.ids)

    def append(self, token_id: int) -> None:
        self.ids.append(token_id)

    def spans_within(self, start: int, end: int) -> list[MediaSpan]:
        """Spans clipped to `[start, end)` (see `spans.clip`), in O(1) past the last span, else O(log n +
        hits)."""
        if start >= self._last_end:
            return []
        first = bisect_right(self._ends, start)
        hits: list[MediaSpan] = []
        for index in range(first, len(self.spans)):
            if self.spans[index].start >= end:
                break
            hits.append(self.spans[index])
        return clip(hits, start, end)

    def block(self, index: int, size: int) -> TokenBlock:
        """Block number `index` of `size` tokens. IndexError unless it is full."""
        start = index * size
        if not 0 <= start <= len(self.ids) - size:
            raise IndexError(
                f"block {index} of {size} tokens is not full in a sequence of {len(self.ids)} tokens"
            )
        return self.piece(start, start + size)

    def piece(self, start: int, end: int) -> TokenBlock:
        """Tokens [start, end)."""
        return TokenBlock(tuple(self.ids[start:end]), tuple(self.spans_within(start, end)))

    def shares_prefix(self, other: "TokenSequence", num_tokens: int) -> bool:
        """Whether the first `num_tokens` tokens of both are the same: ids, media and the media's parts."""
        return (
            min(len(self), len(other)) >= num_tokens
            and self.ids[:num_tokens] == other.ids[:num_tokens]
            and self.spans_within(0, num_tokens) == other.spans_within(0, num_tokens)
        )


def _check_spans(spans: Sequence[MediaSpan], num_tokens: int) -> None:
    previous_end = 0
    for span in spans:
        if span.offset < 0:
            raise ValueError(f"span {span.start}..{span.end} begins at the negative offset {span.offset}")
        if not previous_end <= span.start < span.end <= num_tokens:
            raise ValueError(
                f"span {span.start}..{span.end} is empty, out of order or outside {num_tokens} tokens"
            )
        previous_end = span.end
