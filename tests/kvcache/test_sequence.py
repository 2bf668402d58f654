import pytest

from kvcache.keys import MediaKey
from kvcache.sequence import TokenBlock, TokenSequence
from kvcache.spans import MediaSpan

KEY, OTHER = MediaKey(b"k" * 32), MediaKey(b"o" * 32)


def many_spans(count: int) -> TokenSequence:
    spans = [MediaSpan(3 * i, 3 * i + 2, KEY, i) for i in range(count)]
    return TokenSequence([0] * (3 * count), spans)


class CountingList(list):
    """A list that counts how often somebody looks at one of its items."""

    looks = 0

    def __getitem__(self, index):
        self.looks += 1
        return super().__getitem__(index)


class CountingTuple(tuple):
    looks = 0

    def __getitem__(self, index):
        CountingTuple.looks += 1
        return super().__getitem__(index)

    def __iter__(self):
        CountingTuple.looks += len(self)
        return super().__iter__()


@pytest.mark.parametrize("count", [1, 10, 10_000])
def test_past_the_last_span_no_span_is_looked_at(count):
    sequence = many_spans(count)
    sequence._ends = CountingList(sequence._ends)
    sequence.spans = CountingTuple(sequence.spans)
    CountingTuple.looks = 0
    start = len(sequence)
    for token in range(16):
        sequence.append(token)
    assert sequence.spans_within(start, start + 16) == []
    assert sequence.block(start // 16, 16).ids is not None
    sequence.spans_within(start - 1, start + 1)
    assert sequence._ends.looks + CountingTuple.looks <= (20 if count > 5 else 60)


def test_within_the_spans_few_are_looked_at():
    sequence = many_spans(10_000)
    sequence._ends = CountingList(sequence._ends)
    sequence.spans = CountingTuple(sequence.spans)
    CountingTuple.looks = 0
    hits = sequence.spans_within(15_000, 15_016)
    assert [span.offset for span in hits] == [5000, 5001, 5002, 5003, 5004, 5005]
    assert sequence._ends.looks + CountingTuple.looks < 40


def test_blocks_are_full_and_clipped():
    sequence = TokenSequence([7, 0, 0, 0, 0, 8, 9], [MediaSpan(1, 5, KEY, 10)])
    first, second = sequence.block(0, 3), sequence.block(1, 3)
    assert first == TokenBlock((7, 0, 0), (MediaSpan(1, 3, KEY, 10),))
    assert second == TokenBlock((0, 0, 8), (MediaSpan(0, 2, KEY, 12),))
    with pytest.raises(IndexError):
        sequence.block(2, 3)
    with pytest.raises(IndexError):
        sequence.block(-1, 3)
    sequence.append(1)
    sequence.append(2)
    assert sequence.block(2, 3) == TokenBlock((9, 1, 2), ())


@pytest.mark.parametrize(
    "spans",
    [
        [MediaSpan(1, 1, KEY)],
        [MediaSpan(-1, 1, KEY)],
        [MediaSpan(2, 5, KEY)],
        [MediaSpan(0, 2, KEY), MediaSpan(1, 3, KEY)],
        [MediaSpan(2, 3, KEY), MediaSpan(0, 1, KEY)],
        [MediaSpan(0, 1, KEY, -1)],
    ],
)
def test_spans_that_do_not_fit_are_refused(spans):
    with pytest.raises(ValueError, match="span"):
        TokenSequence([0, 0, 0, 0], spans)


def test_shared_prefix_is_ids_and_media():
    base = TokenSequence([0, 0, 0, 5], [MediaSpan(0, 3, KEY)])
    assert base.shares_prefix(TokenSequence([0, 0, 0, 6], [MediaSpan(0, 3, KEY)]), 3)
    assert base.shares_prefix(TokenSequence([0, 0], [MediaSpan(0, 2, KEY)]), 2)
    assert not base.shares_prefix(TokenSequence([0, 0, 0, 6], [MediaSpan(0, 3, KEY)]), 4)
    assert not base.shares_prefix(TokenSequence([0, 0, 0, 5], [MediaSpan(0, 3, OTHER)]), 3)
    assert not base.shares_prefix(TokenSequence([0, 0, 0, 5], [MediaSpan(0, 3, KEY, 1)]), 3)
    assert not base.shares_prefix(TokenSequence([0, 0], [MediaSpan(0, 2, KEY)]), 3)
