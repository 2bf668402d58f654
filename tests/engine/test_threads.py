import os

import pytest

from engine import threads
from engine.threads import num_step_threads


@pytest.mark.parametrize(
    ("cores", "share", "expected"),
    [(1, None, 1), (2, None, 2), (3, None, 2), (16, None, 15), (64, 2, 2), (64, 8, 7), (2, 8, 2)],
)
def test_a_core_is_left_to_http_where_there_are_more_than_two(
    monkeypatch: pytest.MonkeyPatch, cores: int, share: int | None, expected: int
) -> None:
    """share: the control group's limit, in cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(threads, "num_cpus", lambda: share)
    assert num_step_threads(0) == expected


def test_a_wish_is_granted() -> None:
    assert num_step_threads(5) == 5
