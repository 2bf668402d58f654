"""What a model thinks is kept apart from what it answers, in whatever pieces it comes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.reasoning import ReasoningSplitter, ThinkTokens


@pytest.mark.parametrize(
    ("text", "inside", "reasoning", "content"),
    [
        ("<think>\nwhy</think>\n\nbecause", False, "why", "because"),
        ("\n<think>why</think>because </think>", False, "why", "because </think>"),
        ("why</think>because", True, "why", "because"),
        ("no thought", False, "", "no thought"),
        ("a <think>b</think>", False, "", "a <think>b</think>"),
        ("<think>cut sho", False, "cut sho", ""),
        ("<thin", False, "", "<thin"),
        ("<think>a </thin", False, "a </thin", ""),
    ],
)
@given(cuts=st.sets(st.integers(0, 60)))
def test_split(text: str, inside: bool, reasoning: str, content: str, cuts: set[int]) -> None:
    splitter = ReasoningSplitter(inside)
    edges = sorted({0, len(text)} | {cut for cut in cuts if cut < len(text)})
    parts = [splitter.push(text[a:b]) for a, b in pairwise(edges)] + [splitter.finish()]
    assert "".join(part.reasoning for part in parts) == reasoning
    assert "".join(part.content for part in parts) == content


def test_a_prompt_may_open_the_thought() -> None:
    tokens = ThinkTokens(open=7, close=8)
    assert tokens.opened_by([1, 2, 7, 3])
    assert not tokens.opened_by([1, 7, 2, 8])
    assert not tokens.opened_by([7, *[1] * 20])


def test_blanks_are_not_held_without_end() -> None:
    splitter, blanks = ReasoningSplitter(inside=False), "\n" * 10_000
    told = "".join(splitter.push(char).content for char in blanks)
    assert told + splitter.finish().content == blanks
    assert told
