"""Media spans: which placeholder tokens stand for which part of which media. Pure functions over them."""

from collections.abc import Iterable
from typing import NamedTuple

from kvcache.keys import MediaKey


class MediaSpan(NamedTuple):
    """Tokens `[start, end)` stand for the content `key`, beginning at the content's own token `offset`.

    One media may own several spans (a picture whose rows are divided by ordinary break tokens): same key,
    rising offsets.
    """

    start: int
    end: int
    key: MediaKey
    offset: int = 0

    @property
    def num_tokens(self) -> int:
        return self.end - self.start


def clip(spans: Iterable[MediaSpan], start: int, end: int) -> list[MediaSpan]:
    """The spans as seen from the token range `[start, end)`, positions counted from `start`.

    What is cut off at the left moves into the offset. A picture of 100 tokens at 10..110, clipped to 30..50,
    is the picture's tokens 20..40 at positions 0..20: MediaSpan(10, 110, k) -> MediaSpan(0, 20, k,
    offset=20).
    """
    return [
        MediaSpan(
            max(s.start, start) - start, min(s.end, end) - start, s.key, s.offset + max(0, start - s.start)
        )
        for s in spans
        if max(s.start, start) < min(s.end, end)
    ]
