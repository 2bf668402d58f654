"""How far a chunk may go in what is left of a step."""

from engine.budget import StepBudget
from tests.engine.house import House
from tests.engine.sequences import make_sequence


def budget(num_tokens: int, num_prefill_tokens: int) -> StepBudget:
    left = StepBudget(House(max_num_batched_tokens=num_tokens).limits)
    left.num_prefill_tokens = num_prefill_tokens
    return left


def test_chunks_end_with_the_budget_and_before_an_indivisible_range() -> None:
    prompt = make_sequence(list(range(40)), indivisible=((10, 20),))
    assert budget(64, 8).chunk_end(prompt, 0) == 8
    assert budget(64, 15).chunk_end(prompt, 0) == 10
    assert budget(64, 64).chunk_end(prompt, 0) == 40


def test_an_indivisible_range_may_take_more_than_the_share_of_prompts_but_not_of_the_step() -> None:
    prompt = make_sequence(list(range(40)), indivisible=((10, 20),))
    assert budget(64, 4).chunk_end(prompt, 10) == 20
    assert budget(9, 4).chunk_end(prompt, 10) == 10


def test_after_it_nothing_is_left_for_others() -> None:
    left = budget(64, 4)
    left.take(make_sequence(list(range(40)), indivisible=((10, 20),)), 10, 20)
    assert left.num_tokens == 54
    assert left.chunk_end(make_sequence(list(range(40))), 7) == 7
