import hypothesis.strategies as st
from hypothesis import given

from kvcache.keys import MediaKey
from kvcache.spans import MediaSpan, clip

KEY = MediaKey(b"k" * 32)
SPANS = [MediaSpan(10, 110, KEY), MediaSpan(110, 120, KEY, 100), MediaSpan(130, 131, KEY, 7)]


def test_clip_moves_what_is_cut_off_into_the_offset():
    assert clip(SPANS, 30, 50) == [MediaSpan(0, 20, KEY, 20)]
    assert clip(SPANS, 0, 16) == [MediaSpan(10, 16, KEY, 0)]
    assert clip(SPANS, 100, 115) == [MediaSpan(0, 10, KEY, 90), MediaSpan(10, 15, KEY, 100)]
    assert clip(SPANS, 120, 130) == clip(SPANS, 50, 50) == []


@given(st.integers(0, 140), st.integers(0, 140), st.integers(0, 140))
def test_clipping_twice_is_clipping_once(start, middle, end):
    start, middle, end = sorted((start, middle, end))
    assert clip(clip(SPANS, start, 140), middle - start, end - start) == clip(SPANS, middle, end)
