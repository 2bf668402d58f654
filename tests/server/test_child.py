"""A child's fate is its own: what was asked before does nothing to what is asked next, or to the server."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.child import ChildEnded
from server.child_pool import ChildPool
from tests.server.odd_child import MB, resident_bytes

MODULE = "tests.server.odd_child"


@pytest.fixture
def pool() -> Iterator[ChildPool]:
    made = ChildPool(MODULE, 1024 * MB, num_ready=1)
    yield made
    made.close()


def ask(pool: ChildPool, word: str, body: bytes = b"", limit_s: float = 250) -> Any:
    return pool.ask(word, body, limit_s).head


def test_it_knows_none_of_the_servers_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INTARSIA_API_KEYS", "HF_TOKEN", "HOMEBREW_GITHUB_API_TOKEN", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/where/libraries/are")
    pool = ChildPool(MODULE, 1024 * MB)
    environment = ask(pool, "environment")
    pool.close()
    assert "secret" not in environment.values()
    assert environment["LD_LIBRARY_PATH"] == "/where/libraries/are"


def test_a_terminals_interrupt_reaches_the_server_alone(pool: ChildPool) -> None:
    assert ask(pool, "group") != os.getpgrp()


def test_a_server_without_standard_error_has_children_too() -> None:
    program = (
        f"import os, sys; sys.path[:] = {sys.path}; os.close(2)\n"
        "from server.child_pool import ChildPool\n"
        f"print(ChildPool({MODULE!r}, {1024 * MB}).ask('pid', b'', 250).head)"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    assert int(done.stdout) > 0


def test_what_one_question_damages_is_not_laid_on_the_next(pool: ChildPool) -> None:
    damaged = ask(pool, "be damaged")
    assert ask(pool, "pid") != damaged
    assert len(pool._idle) == 1


def test_who_ends_a_process_that_was_asked_nothing_before_is_to_blame(pool: ChildPool) -> None:
    for _ in range(2):
        with pytest.raises(ChildEnded):
            ask(pool, "end")
        assert len(pool._idle) == 1
        ask(pool, "pid")


def test_one_that_keeps_much_memory_leaves(pool: ChildPool) -> None:
    first = ask(pool, "pid")
    assert ask(pool, "keep") == first
    assert ask(pool, "pid") != first


def test_nothing_is_left_of_a_question(pool: ChildPool) -> None:
    pid = ask(pool, "pid")
    before = resident_bytes(pid)
    assert ask(pool, "pid", bytes(200 * MB)) == pid
    for _ in range(4000):  # it lets go once it has answered
        if resident_bytes(pid) < before + 50 * MB:
            return
        time.sleep(0.005)
    raise AssertionError("it keeps what it was asked")


def test_one_that_claims_more_than_it_may_have_is_not_believed(pool: ChildPool) -> None:
    with pytest.raises(ChildEnded):
        ask(pool, "claim")


def test_time_runs_out_for_an_answer_that_never_ends(pool: ChildPool) -> None:
    ask(pool, "pid")
    (child,) = pool._idle
    pid = child._process.pid
    with pytest.raises(TimeoutError):
        ask(pool, "drip", limit_s=0.2)
    assert not Path(f"/proc/{pid}").exists()
