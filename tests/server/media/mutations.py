"""Files with a few bytes changed and an end cut off."""

from collections.abc import Sequence

from hypothesis import strategies as st


@st.composite
def mutated(draw: st.DrawFn, seeds: Sequence[bytes], reach: int) -> bytes:
    """One of `seeds`, changed among its first `reach` bytes."""
    seed = draw(st.sampled_from(seeds))
    changes = draw(st.lists(st.tuples(st.integers(0, reach), st.integers(0, 255)), min_size=1, max_size=8))
    data = bytearray(seed[: len(seed) - draw(st.integers(0, 60))])
    for position, value in changes:
        data[position % len(data)] = value
    return bytes(data)
