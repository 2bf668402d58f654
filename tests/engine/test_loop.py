"""One request's misfortune is its own; ends, reasons and counters are right."""

import logging

import pytest

from engine.messages import Abort, Ping, StopChoice
from tests.engine.arithmetic import DeviceLost, lone_run
from tests.engine.house import House, generate, media_item


def a_crowd(house: House, size: int = 7) -> None:
    for index in range(size):
        house.add(generate(f"r{index}", [2, 3, 4, 5, 6, 7, 8, 9, index], max_tokens=6))


@pytest.mark.parametrize("culprits", [{"r3"}, {"r0", "r6"}, {"r0", "r1", "r2", "r3", "r4", "r5", "r6"}])
@pytest.mark.parametrize("how", ["break_on", "fault_on"])
def test_only_the_culprit_fails(culprits, how) -> None:
    house = House()
    getattr(house.runner, how).update(culprits)
    a_crowd(house)
    house.run()
    house.check_all_done()
    assert house.failures.keys() == culprits
    for failure in house.failures.values():
        assert failure.code == "internal"
        assert "Error" not in failure.message, "no internals"
    assert all(len(tokens) == 6 for tokens in house.tokens.values())


def test_a_failure_in_the_middle_of_answers() -> None:
    house = House()
    a_crowd(house)
    house.step()
    house.step()
    house.runner.break_on.add("r4")
    house.run()
    house.check_all_done()
    assert house.failures.keys() == {"r4"}
    assert len(house.tokens["r4", 0]) == 2


def test_what_a_faulty_row_wrote_is_not_found_again() -> None:
    house = House()
    house.runner.fault_on.add("bad")
    prompt = list(range(3, 20))
    house.add(generate("bad", prompt))
    house.run()
    house.add(generate("good", prompt))
    house.run()
    house.check_all_done()
    assert house.cached["good"] == 0


def test_a_failing_encoder_fails_only_those_who_need_it() -> None:
    house = House()
    broken, fine = media_item("a", 5), media_item("b", 5)
    house.runner.fail_encoding.add(broken.key)
    house.add(generate("broken", [2, broken, 3]))
    house.add(generate("both", [2, fine, broken, 3]))
    house.add(generate("fine", [2, fine, 3]))
    house.add(generate("text", [2, 3, 4]))
    house.run()
    house.check_all_done()
    assert house.failures.keys() == {"broken", "both"}
    house.runner.fail_encoding.clear()
    house.add(generate("later", [2, broken, 3]))
    house.run()
    house.check_all_done()


def test_fatal_errors_are_let_out() -> None:
    house = House()
    house.runner.device_lost = True
    house.add(generate("r", [2, 3]))
    with pytest.raises(DeviceLost):
        house.step()


def test_stop_tokens_and_their_minimum() -> None:
    prompt = [2, 3, 4]
    answer = lone_run(generate("x", prompt), 0, 12)
    stop = answer[3]
    assert stop not in answer[:3]
    house = House()
    house.add(generate("stops", prompt, max_tokens=12, stop_token_ids=(stop,)))
    house.add(generate("must go on", prompt, max_tokens=12, stop_token_ids=(stop,), min_tokens=4))
    house.run()
    house.check_answers()
    assert house.tokens["stops", 0] == answer[:4]
    assert house.finished["stops", 0] == "stop"
    assert len(house.tokens["must go on", 0]) > 4


def test_a_refused_request_leaves_nothing_and_disturbs_nobody() -> None:
    house = House()
    house.add(generate("fine", [2, 3]))
    house.add(generate("bad", [2, 97]))
    house.run()
    house.check_all_done()
    assert house.failures["bad"].code == "invalid_request"
    assert house.engine.stats().num_failed == 1


def test_an_id_in_use_is_ignored(caplog) -> None:
    house = House()
    house.add(generate("r", [2, 3]))
    with caplog.at_level(logging.ERROR):
        house.engine.handle(generate("r", [4, 5]))
    house.run()
    house.check_all_done()
    assert "already in use" in caplog.text


@pytest.mark.parametrize("num_steps", [0, 1, 2, 5])
def test_an_abort_frees_everything_at_once(num_steps) -> None:
    house = House(num_blocks=20, max_num_batched_tokens=16, prompt_answers=False)
    house.add(generate("r", [*range(20), media_item("a", 6), *range(20)], choices=2))
    for _ in range(num_steps):
        house.step()
    house.abort("r")
    house.abort("r")
    assert house.cache.num_free_blocks == house.cache.num_blocks
    assert len(house.engine.wants) == 0
    for needed in list(house.asked):
        house.answer(needed)
    assert len(house.engine.wants) == 0, "tensors that come late are dropped"
    assert not house.step()
    assert house.engine.stats().num_aborted == 1


@pytest.mark.parametrize("num_steps", [0, 1, 4])
@pytest.mark.parametrize("stopped", [0, 2])
def test_one_choice_ends_alone(num_steps, stopped) -> None:
    house = House()
    house.add(generate("r", list(range(10)), max_tokens=20, choices=3))
    for _ in range(num_steps):
        house.step()
    house.engine.handle(StopChoice("r", stopped))
    house.engine.handle(StopChoice("r", stopped))
    had = len(house.tokens.get(("r", stopped), ()))
    house.run()
    assert len(house.tokens.get(("r", stopped), ())) == had
    for choice in {0, 1, 2} - {stopped}:
        assert house.tokens["r", choice] == lone_run(house.requests["r"], choice, 20)
    assert house.cache.num_free_blocks == house.cache.num_blocks
    house.engine.check_integrity()
    stats = house.engine.stats()
    assert (stats.num_finished, stats.num_aborted) == (1, 0)
    assert stats.num_generated_tokens == 40 + had


def test_the_last_choice_ended_alone_ends_the_request() -> None:
    house = House()
    house.add(generate("r", list(range(10)), max_tokens=20, choices=2))
    house.step()
    house.engine.handle(StopChoice("r", 1))
    house.engine.handle(StopChoice("r", 0))
    assert not house.step()
    assert house.cache.num_free_blocks == house.cache.num_blocks
    stats = house.engine.stats()
    assert (stats.num_finished, stats.num_aborted) == (1, 0)


def test_what_is_left_of_a_request_may_be_aborted() -> None:
    house = House()
    house.add(generate("r", list(range(10)), max_tokens=20, choices=2))
    house.step()
    house.engine.handle(StopChoice("r", 1))
    house.abort("r")
    house.engine.handle(StopChoice("r", 0))
    stats = house.engine.stats()
    assert (stats.num_finished, stats.num_aborted) == (0, 1)


def test_unknown_aborts_are_ignored_and_pings_answered() -> None:
    house = House()
    events = []
    house.engine.emit = events.append
    house.engine.handle(Abort("nobody"))
    house.engine.handle(StopChoice("nobody", 0))
    house.engine.handle(Ping())
    assert [type(event).__name__ for event in events] == ["Pong"]


def test_what_is_given_up_for_others_is_counted() -> None:
    house = House(num_blocks=4)
    for index in range(2):
        house.add(generate(f"r{index}", [index, *range(11)], max_tokens=1))
        house.run()
    stats = house.engine.stats()
    assert (stats.num_evicted_blocks, stats.num_cached_blocks) == (2, 4)


def test_counters() -> None:
    house = House()
    house.add(generate("a", list(range(10)), max_tokens=3))
    house.run()
    house.add(generate("b", list(range(10)), max_tokens=3))
    house.run()
    stats = house.stats
    assert (stats.num_running, stats.num_waiting, stats.num_free_blocks) == (0, 0, stats.num_blocks)
    assert (stats.num_computed_prompt_tokens, stats.num_cached_prompt_tokens) == (11, 9)
    assert (stats.num_generated_tokens, stats.num_finished, stats.num_steps) == (6, 2, 6)
    assert house.cached == {"a": 0, "b": 9}
