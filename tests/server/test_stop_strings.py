"""Stop strings against their definition: the text up to the earliest match, whatever the pieces."""

from hypothesis import given
from hypothesis import strategies as st

from server.stop_strings import StopStrings

letters = st.text("ab", max_size=12)
stops = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=4)


@given(st.lists(letters, max_size=6), stops)
def test_shows_exactly_what_precedes_the_earliest_match(pieces: list[str], stop: list[str]) -> None:
    text = "".join(pieces)
    begins = [text.find(s) for s in stop if s in text]
    strings = StopStrings(tuple(stop))
    shown = ""
    for piece in pieces:
        shown += strings.push(piece)
        assert text.startswith(shown)
        if strings.matched:
            break
    if not strings.matched:
        shown += strings.finish()
    assert shown == (text[: min(begins)] if begins else text)
    assert strings.matched == bool(begins)


@given(st.lists(letters, max_size=6), stops)
def test_holds_back_only_what_might_become_a_stop_string(pieces: list[str], stop: list[str]) -> None:
    strings = StopStrings(tuple(stop))
    text = shown = ""
    for piece in pieces:
        text += piece
        shown += strings.push(piece)
        held = text[len(shown) :]
        if strings.matched:
            return
        assert not held or any(s.startswith(held) for s in stop) or any(s in held for s in stop)
