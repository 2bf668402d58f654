import os

import pytest

from engine.threads import num_step_threads


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 2), (3, 2), (16, 15)])
def test_a_core_is_left_to_http_where_there_are_more_than_two(
    monkeypatch: pytest.MonkeyPatch, cores: int, threads: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert num_step_threads(0) == threads


def test_a_wish_is_granted() -> None:
    assert num_step_threads(5) == 5
