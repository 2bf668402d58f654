"""The progress rule, attacked; and nothing computed twice."""

import pytest

from engine.budget import MAX_EARLY_MATCHES_A_STEP, MAX_MATCHES_A_STEP
from engine.messages import MAX_CHOICES
from tests.engine.arithmetic import BLOCK_SIZE
from tests.engine.calls import num_calls
from tests.engine.house import House, generate, media_item

PROMPT = list(range(3, 30))


def steps_until_done(house: House) -> int:
    return next(n for n in range(5000) if not house.step() and not house.asked)


def test_eight_identical_requests_compute_each_block_once_and_encode_once() -> None:
    image = media_item("a", 10)
    house = House(num_blocks=64)
    for index in range(8):
        house.add(generate(f"r{index}", [*PROMPT, image, 5, 6]))
    house.run()
    house.check_all_done()
    prompt = len(PROMPT) + 12
    tail = prompt - (prompt - 1) // BLOCK_SIZE * BLOCK_SIZE
    stats = house.engine.stats()
    assert stats.num_computed_prompt_tokens == prompt + 7 * tail
    assert stats.num_cached_prompt_tokens == 7 * (prompt - tail)
    assert (stats.num_encoder_runs, stats.num_media_requested) == (1, 1)


def test_identical_requests_wait_for_the_first_while_others_pass() -> None:
    """Chunks of 16 tokens: the second and third must not begin the same prompt, and the fourth must not
    wait."""
    house = House(num_blocks=64, max_num_batched_tokens=20, max_prefill_tokens_beside_decodes=12)
    for index in range(3):
        house.add(generate(f"same{index}", [*PROMPT, *PROMPT]))
    house.add(generate("other", [90, 91], max_tokens=2))
    while ("other", 0) not in house.finished:
        house.step()
    assert ("same0", 0) not in house.finished
    house.run()
    house.check_all_done()
    assert house.engine.stats().num_computed_prompt_tokens == 54 + 2 * 2 + 2


def test_choices_recompute_only_the_tail() -> None:
    house = House()
    house.add(generate("r", PROMPT, choices=5))
    house.run()
    house.check_all_done()
    assert house.engine.stats().num_computed_prompt_tokens == 27 + 4 * 3
    assert house.cached == {"r": 0}


def test_as_many_choices_as_may_be_asked_for_in_a_pool_for_one() -> None:
    house = House(num_blocks=8, max_num_seqs=4)
    house.add(generate("r", PROMPT, choices=MAX_CHOICES))
    house.run()
    house.check_all_done()
    assert len(house.finished) == MAX_CHOICES


def test_an_aborted_promiser_hands_over() -> None:
    house = House(max_num_batched_tokens=16)
    house.add(generate("first", [*PROMPT, *PROMPT]))
    house.add(generate("second", [*PROMPT, *PROMPT]))
    house.step()
    house.abort("first")
    house.run()
    house.check_all_done(aborted={"first"})
    assert house.cached["second"] == 16, "what the first had computed is used"


def test_two_media_that_fit_alone_but_not_together() -> None:
    house = House(encoder_bytes=12)
    first, second = media_item("a", 10), media_item("b", 11)
    house.add(generate("r", [3, first, 4, second, 5, first]))
    house.add(generate("s", [second, first]))
    house.run()
    house.check_all_done()
    assert not house.failures


def test_a_pool_for_exactly_one_request() -> None:
    """24 tokens of place; each needs 9 + 16 - 1."""
    house = House(num_blocks=6)
    for index in range(4):
        house.add(generate(f"r{index}", [50 + index, *range(8)], max_tokens=16))
    house.run()
    house.check_all_done()
    assert set(house.finished.values()) == {"length"}
    assert all(len(tokens) == 16 for tokens in house.tokens.values())


def test_the_oldest_is_never_preempted() -> None:
    house = House(num_blocks=10, max_num_seqs=4)
    for index in range(4):
        house.add(generate(f"r{index}", [50 + index, *range(8)], max_tokens=16))
    seen = 0
    while house.step():
        oldest = len(house.tokens.get(("r0", 0), []))
        assert oldest == min(seen + 1, 16)
        seen = oldest
    assert house.engine.stats().num_preemptions > 0


def test_decodes_are_in_every_step_of_a_long_prefill() -> None:
    house = House(num_blocks=300, max_prefill_tokens_beside_decodes=8, max_num_batched_tokens=64)
    house.add(generate("talks", [1, 2], max_tokens=60))
    house.step()
    house.add(generate("long", list(range(90)) * 5, max_tokens=1))
    for count in range(2, 58):
        house.step()
        assert len(house.tokens["talks", 0]) == count
    assert ("long", 0) not in house.tokens, "at most 8 tokens a step"
    house.run()
    house.check_all_done()


def test_an_indivisible_span_of_the_greatest_size_beside_decodes() -> None:
    house = House(
        num_blocks=64, max_num_seqs=4, max_num_batched_tokens=20, max_prefill_tokens_beside_decodes=4
    )
    for index in range(3):
        house.add(generate(f"talks{index}", [index, 2], max_tokens=40))
    house.step()
    house.add(generate("sound", [9, media_item("s", 17, "audio"), 8]))
    house.add(generate("longer", [9, media_item("t", 18, "audio"), 8]))
    house.run()
    house.check_all_done()
    assert house.failures["longer"].code == "media_too_large"
    assert ("sound", 0) in house.finished


def test_a_stalled_prefill_gives_way_to_those_who_can_run() -> None:
    """Its picture never comes while it holds most of the pool, and the only slot."""
    house = House(num_blocks=12, prompt_answers=False, max_num_seqs=1)
    image = media_item("a", 4)
    house.add(generate("stalled", [*PROMPT, image, 3], max_tokens=2))
    house.add(generate("ready", [60, *PROMPT], max_tokens=3))
    for _ in range(10):
        house.step()
    assert ("ready", 0) in house.finished
    assert ("stalled", 0) not in house.tokens
    house.run()
    house.check_all_done()


def test_two_that_wait_for_tensors_in_turn_do_not_undo_each_other_for_ever() -> None:
    """One fills the pool. The encoding cache holds one picture, so each waits anew for what it shows again;
    meanwhile the other writes over what it has computed."""
    house = House(num_blocks=7, encoder_bytes=8, max_num_seqs=1, prompt_answers=False)
    a, b, c, d = (media_item(name, 8) for name in "abcd")
    house.add(generate("one", [a, 2, b, 2, a, 2], max_tokens=2))
    house.add(generate("two", [c, 2, d, 2, c, 2], max_tokens=2))
    house.run(max_steps=100)
    house.check_all_done()


def test_whoever_finds_its_blocks_leaves_those_who_run_some_to_grow_by() -> None:
    """Six blocks are held; the other ten are free, and all of them are the prompt of the next."""
    house = House(num_blocks=16)
    prompt = list(range(3, 43))
    house.add(generate("first", prompt, max_tokens=1))
    house.run()
    house.add(generate("grows", list(range(60, 81)), max_tokens=12))
    house.add(generate("again", prompt, max_tokens=12))
    house.run()
    house.check_all_done()
    assert house.engine.stats().num_preemptions == 0


def test_a_full_budget_for_tensors_does_not_stop_what_runs() -> None:
    """Tensors for those in the queue fill the budget; the one that runs still gets its own."""
    house = House(num_blocks=64, prepared_media_bytes=1, max_num_seqs=1, prompt_answers=False)
    images = [media_item(name, 6) for name in "abcd"]
    for image in images:
        house.add(generate(image.key.decode(), [3, 4, image, 5, images[0], 6]))
    house.run()
    house.check_all_done()
    assert not house.failures


def test_media_are_asked_for_while_the_request_waits() -> None:
    house = House(prompt_answers=False, max_num_seqs=1)
    house.add(generate("talks", [1, 2], max_tokens=30))
    house.add(generate("sees", [3, media_item("a", 6), media_item("b", 6)]))
    house.step()
    assert len(house.asked) == 2


def test_a_covered_span_is_never_asked_for() -> None:
    image = media_item("a", 12)
    house = House()
    house.add(generate("first", [1, 2, image, 3, 4, 5, 6]))
    house.run()
    (encoding,) = house.held_encodings()
    house.encodings.discard(encoding)
    house.runner.drop_encodings([encoding])
    house.add(generate("again", [1, 2, image, 3, 4, 5, 6]))
    house.run()
    house.check_all_done()
    assert house.num_asked == 1
    assert not house.held_encodings()
    assert house.cached["again"] == 17


def test_a_media_leader_that_ends_hands_over() -> None:
    house = House(prompt_answers=False)
    image = media_item("a", 6)
    for name in ("first", "second", "third"):
        house.add(generate(name, [image, 3]))
    house.step()
    assert [needed.request_id for needed in house.asked] == ["first"]
    house.abort("first")
    assert [needed.request_id for needed in house.asked] == ["first", "second"]
    house.refuse(house.asked[1])
    assert house.failures["second"].code == "invalid_image"
    assert house.asked[-1].request_id == "third"
    house.run()
    house.check_all_done(aborted={"first"})


@pytest.mark.parametrize("image", [None, media_item("a", 6)])
def test_thousands_in_the_queue_cost_a_step_little(image) -> None:
    """Three thousand wait for the same promise, for the same picture, or only for a slot. None of them is
    matched again at every step, only looked at."""
    num_waiting = 3000
    house = House(num_blocks=400, max_num_seqs=4, max_num_batched_tokens=16, prompt_answers=False)
    for index in range(num_waiting):
        house.add(generate(f"r{index}", [*([image] if image else []), *range(90), index % 50], max_tokens=2))
    for _ in range(num_waiting // MAX_EARLY_MATCHES_A_STEP + 2):
        house.engine.step()
    assert num_calls(house.engine.step) < 8 * num_waiting


def test_beside_answers_the_encoder_takes_small_bites() -> None:
    """Else the pictures of one request, all in one step, would hold up what others are being told."""
    house = House(num_blocks=128, encoder_bytes=1000, max_prefill_tokens_beside_decodes=64)
    house.add(generate("talking", [2, 3], max_tokens=12))
    house.step()
    images = [media_item(f"image {number}", 30) for number in range(5)]
    house.add(generate("pictures", [4, *images, 5], max_tokens=2))
    runs = []
    for _ in range(10):
        before = house.engine.plan.num_runs
        house.step()
        runs.append(house.engine.plan.num_runs - before)
    assert (max(runs), sum(runs)) == (2, 5)
    house.run()
    house.check_all_done()


def test_a_burst_of_waiters_without_tensors_does_not_put_those_behind_it_to_sleep() -> None:
    """More than one step may look at wait for media; the one behind them starts without a command coming."""
    house = House(num_blocks=1000, prompt_answers=False)
    for index in range(MAX_MATCHES_A_STEP + 5):
        house.add(generate(f"m{index}", [1, media_item(f"x{index}", 3), 2]))
    house.add(generate("text", [7, 8, 9]))
    while house.engine.step():
        pass
    assert house.finished.get(("text", 0))


@pytest.mark.parametrize("prompt_answers", [True, False])
def test_a_burst_with_media_is_matched_a_few_at_a_time_until_all_were_looked_at(
    prompt_answers, monkeypatch
) -> None:
    """All with one picture, which is held or on its way, so none of them fills the budget for tensors."""
    house = House(num_blocks=1000, max_num_seqs=2, prompt_answers=prompt_answers)
    image, match, matched = media_item("a", 6), house.cache.match, []
    if prompt_answers:
        house.add(generate("first", [image, 3]))
        house.run()
    monkeypatch.setattr(house.cache, "match", lambda *args: matched.append(1) or match(*args))
    for index in range(500):
        house.add(generate(f"r{index}", [4, index % 90, image, 5], max_tokens=1))
    looked_at = []
    while house.engine.step():
        looked_at.append(len(matched))
        matched.clear()
    assert max(looked_at) <= MAX_MATCHES_A_STEP
    assert sum(looked_at) >= 500
    house.run()
    house.check_all_done()
    assert house.num_asked == 1


def test_those_that_may_begin_are_looked_at_beside_a_burst_with_media() -> None:
    """What the burst would like to have prepared takes only a share of a step's matches."""
    house = House(num_blocks=1000, prompt_answers=False)
    house.add(generate("text", [7, 8, 9], max_tokens=1))
    for index in range(MAX_MATCHES_A_STEP + 5):
        house.add(generate(f"m{index}", [1, media_item("x", 3), index % 90]))
    house.step()
    assert ("text", 0) in house.finished
