"""The manager's rules, one by one. What they do together is tried in test_manager_stateful."""

import gc
import time

import pytest

from kvcache.keys import MediaKey
from kvcache.manager import KVCacheManager, PrefixMatch
from kvcache.sequence import TokenSequence
from kvcache.spans import MediaSpan

CAT, DOG = MediaKey(b"c" * 32), MediaKey(b"d" * 32)
B = 4


def text(num_tokens: int, start: int = 0) -> TokenSequence:
    return TokenSequence(range(start, start + num_tokens))


def manager(num_blocks: int = 16) -> KVCacheManager:
    return KVCacheManager(num_blocks, block_size=B)


def start(cache, owner, tokens, num_tokens=None, namespace=b"") -> PrefixMatch:
    """Admit and stage up to `num_tokens` (None: all)."""
    match = cache.match(tokens, namespace)
    assert cache.allocate(owner, tokens, namespace, match, len(tokens))
    cache.stage(owner, len(tokens) if num_tokens is None else num_tokens)
    cache.check_integrity()
    return match


def compute(cache, owner, tokens, num_tokens=None, namespace=b"") -> PrefixMatch:
    match = start(cache, owner, tokens, num_tokens, namespace)
    assert cache.commit_step() == []
    cache.check_integrity()
    return match


def free_order(cache) -> list[int]:
    return list(cache._pool.free_blocks())


class TestMatch:
    def test_finds_full_blocks_and_leaves_a_token_to_compute(self):
        cache = manager()
        compute(cache, 1, text(10))
        assert cache.match(text(8), b"").num_tokens == 4
        assert cache.match(text(9), b"").num_tokens == 8
        assert cache.match(text(20), b"").num_tokens == 8
        assert cache.match(text(20), b"").blocks == tuple(cache.block_table(1)[:2])

    @pytest.mark.parametrize("num_tokens", [0, 1, 3, 4])
    def test_short_prompts_have_nothing_to_find(self, num_tokens):
        cache = manager()
        compute(cache, 1, text(8))
        assert cache.match(text(num_tokens), b"") == PrefixMatch(0, (), False)

    def test_namespaces_are_apart(self):
        cache = manager()
        compute(cache, 1, text(9), namespace=b"a")
        assert cache.match(text(9), b"b").num_tokens == 0
        assert cache.match(text(9), b"a").num_tokens == 8

    def test_same_tokens_other_media(self):
        cache = manager()
        compute(cache, 1, TokenSequence([0] * 9, [MediaSpan(2, 8, CAT)]))
        for spans, expected in [
            ([MediaSpan(2, 8, CAT)], 8),
            ([MediaSpan(2, 7, CAT)], 4),
            ([MediaSpan(2, 8, DOG)], 0),
            ([MediaSpan(1, 7, CAT)], 0),
            ([MediaSpan(2, 8, CAT, 1)], 0),
            ([MediaSpan(2, 4, CAT), MediaSpan(4, 8, DOG, 2)], 4),
        ]:
            assert cache.match(TokenSequence([0] * 9, spans), b"").num_tokens == expected

    @pytest.mark.parametrize(
        ("indivisible", "expected"),
        [
            ((), 16),
            (((14, 18),), 12),
            (((16, 18),), 16),
            (((10, 16),), 16),
            (((14, 18), (9, 13)), 8),  # the boundary before one range lies inside another
            (((9, 13), (14, 18)), 8),
            (((2, 17),), 0),
        ],
    )
    def test_never_ends_inside_an_indivisible_range(self, indivisible, expected):
        cache = manager()
        compute(cache, 1, text(16))
        assert cache.match(text(19), b"", indivisible).num_tokens == expected

    def test_grows_with_the_sequence_it_is_asked_for(self):
        cache = manager()
        compute(cache, 1, text(16))
        tokens = text(8)
        assert cache.match(tokens, b"").num_tokens == 4
        tokens.append(8)
        assert cache.match(tokens, b"").num_tokens == 8

    def test_repeated_match_is_cheap(self):
        cache = KVCacheManager(512)
        compute(cache, 1, text(4096))
        tokens = text(4096)
        cache.match(tokens, b"")
        seconds = []
        for _ in range(20):
            begin = time.perf_counter()
            assert cache.match(tokens, b"").num_tokens == 4080
            seconds.append(time.perf_counter() - begin)
        assert min(seconds) < 1e-3

    def test_a_repeated_match_keys_nothing_again(self, monkeypatch):
        cache = manager()
        tokens = text(41)
        cache.match(tokens, b"")
        monkeypatch.setattr("kvcache.chain.block_key", None)
        assert cache.match(tokens, b"") == PrefixMatch(0, (), False)
        assert cache.allocate(1, tokens, b"", PrefixMatch(0, (), False), 41)

    def test_keys_go_with_their_sequence(self):
        cache = manager()
        tokens = text(40)
        cache.match(tokens, b"")
        del tokens
        gc.collect()
        assert not cache._chains


class TestAllocate:
    def test_takes_matched_and_fresh_blocks(self):
        cache = manager(8)
        compute(cache, 1, text(12))
        match = start(cache, 2, text(17))
        assert match.num_tokens == 12
        assert cache.block_table(2)[:3] == cache.block_table(1)
        assert len(cache.block_table(2)) == 5
        assert cache.num_free_blocks == 3

    def test_changes_nothing_when_the_pool_is_too_small(self):
        cache = manager(4)
        compute(cache, 1, text(12))
        cache.free(1)
        match = cache.match(text(24), b"")
        assert match.num_tokens == 12
        assert not cache.allocate(2, text(24), b"", match, 20)  # matched blocks are free ones too
        assert cache.num_free_blocks == 4
        cache.check_integrity()
        assert cache.allocate(2, text(24), b"", match, 16)

    def test_a_match_whose_blocks_were_evicted_since_is_refused(self):
        cache = manager(4)
        compute(cache, 1, text(12))
        cache.free(1)
        tokens = text(13)
        match = cache.match(tokens, b"")
        compute(cache, 2, text(16, start=100))
        cache.free(2)
        assert not cache.allocate(3, tokens, b"", match, 13)
        assert cache.num_free_blocks == 4

    def test_an_owner_allocates_once(self):
        cache = manager()
        compute(cache, 1, text(4))
        with pytest.raises(ValueError, match="already"):
            cache.allocate(1, text(4), b"", PrefixMatch(0, (), False), 4)

    def test_grow(self):
        cache = manager(4)
        compute(cache, 1, text(6))
        table = list(cache.block_table(1))
        assert cache.grow(1, 8)
        assert cache.block_table(1) == table
        assert cache.grow(1, 9)
        assert cache.block_table(1)[:2] == table
        assert not cache.grow(1, 17)
        assert len(cache.block_table(1)) == 3
        cache.check_integrity()

    def test_counters(self):
        cache = manager(4)
        compute(cache, 1, text(12))
        compute(cache, 2, text(13))
        cache.free(1)
        cache.free(2)
        compute(cache, 3, text(16, start=100))
        assert cache.counters == (3, 3 + 0 + 4, 3)


class TestStep:
    def test_staged_blocks_are_shared_within_the_step(self):
        cache = manager()
        start(cache, 1, text(8))
        assert start(cache, 2, text(9)).num_tokens == 8
        assert cache.block_table(2)[:2] == cache.block_table(1)
        assert cache.commit_step() == []
        assert cache.match(text(9), b"").num_tokens == 8

    def test_only_what_is_staged_is_found(self):
        cache = manager()
        start(cache, 1, text(16), num_tokens=9)
        assert cache.match(text(17), b"").num_tokens == 8
        cache.commit_step()
        assert cache.match(text(17), b"").num_tokens == 8
        cache.stage(1, 16)
        assert cache.match(text(17), b"").num_tokens == 16

    def test_generated_blocks_are_published_as_they_fill_up(self):
        cache = manager()
        tokens = text(6)
        compute(cache, 1, tokens)
        for token in (6, 7, 8):
            tokens.append(token)
            assert cache.grow(1, len(tokens))
            cache.stage(1, len(tokens))
            cache.commit_step()
        cache.free(1)
        assert cache.match(text(20), b"").num_tokens == 8

    def test_a_failed_step_publishes_nothing_and_names_its_sharers(self):
        cache = manager()
        compute(cache, 1, text(12), num_tokens=4)
        cache.stage(1, 12)
        start(cache, 2, text(5))  # shares only what was published before
        start(cache, 3, text(13))  # shares what is staged
        start(cache, 4, text(13, start=50))
        assert cache.rollback_step() == [3]
        cache.free(3)
        cache.check_integrity()
        assert cache.match(text(13), b"").num_tokens == 4
        assert cache.match(text(13, start=50), b"").num_tokens == 0
        cache.stage(1, 12)
        cache.commit_step()
        assert cache.match(text(13), b"").num_tokens == 12

    def test_an_equal_block_is_swapped_for_the_held_one(self):
        cache = manager()
        nothing = PrefixMatch(0, (), False)
        one, two = text(8), text(8)
        for owner, tokens in ((1, one), (2, two)):
            assert cache.allocate(owner, tokens, b"", nothing, 8)
            cache.stage(owner, 8)
        own = list(cache.block_table(2))
        assert own != cache.block_table(1)
        cache.check_integrity()
        cache.commit_step()
        cache.check_integrity()
        assert cache.block_table(2) == cache.block_table(1)
        assert set(own) <= set(free_order(cache))
        two.append(8)
        assert cache.grow(2, 9)
        for _ in range(3):
            two.append(8)
        cache.stage(2, 12)
        cache.commit_step()
        assert cache.match(text(8), b"").num_tokens == 4

    def test_a_failed_step_keeps_own_blocks_that_equal_held_ones(self):
        cache = manager()
        compute(cache, 1, text(8))
        tokens = text(8)
        assert cache.allocate(2, tokens, b"", PrefixMatch(0, (), False), 8)
        own = list(cache.block_table(2))
        cache.stage(2, 8)
        assert cache.rollback_step() == []
        cache.check_integrity()
        assert cache.block_table(2) == own
        cache.stage(2, 8)
        cache.commit_step()
        assert cache.block_table(2) == cache.block_table(1)
        cache.check_integrity()

    def test_a_held_equal_is_not_evicted_before_the_swap(self):
        cache = manager(4)
        assert cache.allocate(2, text(8), b"", PrefixMatch(0, (), False), 8)
        compute(cache, 1, text(8))
        cache.free(1)
        cache.stage(2, 8)
        assert cache.num_free_blocks == 0
        cache.commit_step()
        cache.check_integrity()
        assert cache.num_free_blocks == 2

    def test_what_a_freed_owner_had_staged_is_not_published(self):
        cache = manager()
        start(cache, 1, text(8))
        start(cache, 2, text(9))
        start(cache, 3, text(13))
        cache.free(1)
        cache.check_integrity()
        assert cache.match(text(20), b"").num_tokens == 0
        assert cache.commit_step() == [2, 3]
        cache.free(2)
        cache.free(3)
        assert cache.match(text(20), b"").num_tokens == 0
        assert cache.num_free_blocks == 16
        cache.check_integrity()

    def test_blocks_of_an_owner_to_be_restarted_are_never_published(self):
        cache = manager()
        start(cache, 1, text(8))
        start(cache, 2, text(13))
        cache.free(1)
        cache.stage(2, 13)
        assert cache.commit_step() == [2]
        cache.stage(2, 13)
        assert cache.commit_step() == [2]
        assert cache.match(text(13), b"").num_tokens == 0

    def test_stage_refuses_what_has_no_place(self):
        cache = manager()
        tokens = text(8)
        assert cache.allocate(1, tokens, b"", PrefixMatch(0, (), False), 4)
        for too_many in (5, 9):
            with pytest.raises(ValueError, match="place"):
                cache.stage(1, too_many)
        with pytest.raises(KeyError):
            cache.stage(2, 1)


class TestPromises:
    def test_a_running_prompt_is_waited_for_until_it_is_computed(self):
        cache = manager()
        compute(cache, 1, text(12), num_tokens=4)
        assert cache.match(text(20), b"") == PrefixMatch(4, tuple(cache.block_table(1)[:1]), True)
        cache.stage(1, 8)
        cache.commit_step()
        assert cache.match(text(20), b"")[::2] == (8, True)
        cache.stage(1, 12)
        assert cache.match(text(20), b"")[::2] == (12, False)

    def test_only_what_shortens_the_work_is_waited_for(self):
        cache = manager()
        compute(cache, 1, text(16), num_tokens=4)
        assert not cache.match(text(8), b"").awaits_promise
        assert cache.match(text(9), b"").awaits_promise
        assert not cache.match(text(20), b"", ((4, 18),)).awaits_promise
        assert cache.match(text(20), b"", ((5, 10),)).awaits_promise
        assert not cache.match(text(20), b"", ((5, 15), (15, 18))).awaits_promise

    def test_a_tail_is_no_promise(self):
        cache = manager()
        compute(cache, 1, text(11), num_tokens=8)
        assert not cache.match(text(20), b"").awaits_promise

    @pytest.mark.parametrize("hash_bits", [8, 128])
    def test_compared_as_exactly_as_hits(self, hash_bits, monkeypatch):
        if hash_bits == 8:
            monkeypatch.setattr("kvcache.chain.block_key", lambda *args: b"!")
        cache = KVCacheManager(16, B, hash_bits)
        prompt = TokenSequence([0] * 12, [MediaSpan(0, 8, CAT)])
        compute(cache, 1, prompt, num_tokens=4, namespace=b"a")

        def awaits(ids, spans, namespace=b"a"):
            return cache.match(TokenSequence(ids, spans), namespace).awaits_promise

        assert awaits([0] * 12, [MediaSpan(0, 8, CAT)])
        assert not awaits([0] * 12, [MediaSpan(0, 8, CAT)], b"b")
        assert not awaits([0] * 12, [MediaSpan(0, 8, DOG)])
        assert not awaits([0] * 12, [MediaSpan(0, 4, CAT), MediaSpan(4, 8, DOG)])
        assert not awaits([0] * 12, [MediaSpan(0, 7, CAT)])
        assert not awaits([1] + [0] * 11, [MediaSpan(1, 8, CAT, 1)])

    def test_the_prefix_before_a_promised_block_counts(self, monkeypatch):
        """Owner 1 has promised an equal block after other tokens; nothing but the prefix tells them apart."""
        monkeypatch.setattr("kvcache.chain.block_key", lambda *args: b"!")
        cache = manager()
        compute(cache, 1, TokenSequence([1] * 4 + [5] * 8), num_tokens=0)
        compute(cache, 2, TokenSequence([2] * 4))
        assert not cache.match(TokenSequence([2] * 4 + [5] * 8), b"").awaits_promise
        compute(cache, 3, TokenSequence([1] * 4))
        assert cache.match(TokenSequence([1] * 4 + [5] * 8), b"").awaits_promise

    def test_withdrawn_when_freed_but_another_promise_stands(self):
        cache = manager()
        for owner in (1, 2):
            assert cache.allocate(owner, text(8), b"", PrefixMatch(0, (), False), 8)
        cache.free(1)
        assert cache.match(text(8), b"").awaits_promise
        cache.free(2)
        assert not cache.match(text(8), b"").awaits_promise
        cache.check_integrity()


class TestFree:
    def test_unknown_owner_is_nothing(self):
        manager().free(7)

    def test_freed_blocks_are_found_until_evicted_tail_first(self):
        cache = manager(4)
        compute(cache, 1, text(14))
        blocks = list(cache.block_table(1))
        cache.free(1)
        assert free_order(cache) == [blocks[3], blocks[2], blocks[1], blocks[0]]  # the part-filled one first
        assert cache.match(text(14), b"").num_tokens == 12
        compute(cache, 2, text(8, start=100))
        assert cache.match(text(14), b"").num_tokens == 8

    def test_least_recently_used_prefix_goes_first(self):
        cache = manager(6)
        compute(cache, 1, text(8))
        compute(cache, 2, text(8, start=50))
        cache.free(1)
        cache.free(2)
        compute(cache, 3, text(9))  # uses the first again
        cache.free(3)
        compute(cache, 4, text(16, start=100))
        assert cache.match(text(9), b"").num_tokens == 8
        assert cache.match(text(9, start=50), b"").num_tokens == 0

    def test_a_preempted_sequence_finds_what_it_had_computed(self):
        cache = manager()
        tokens = text(6)
        compute(cache, 1, tokens)
        for token in (6, 7, 8):
            tokens.append(token)
        cache.grow(1, 9)
        cache.stage(1, 9)
        cache.commit_step()
        cache.free(1)
        assert compute(cache, 2, tokens).num_tokens == 8

    def test_a_shared_block_stays_with_its_other_owner(self):
        cache = manager(4)
        compute(cache, 1, text(8))
        compute(cache, 2, text(9))
        cache.free(1)
        cache.check_integrity()
        assert not cache.allocate(3, text(8, start=9), b"", PrefixMatch(0, (), False), 8)
        cache.free(2)
        assert cache.num_free_blocks == 4


@pytest.mark.parametrize("arguments", [(0,), (4, 0), (4, 16, 7), (4, 16, 136), (4, 16, 0)])
def test_sizes_that_make_no_sense_are_refused(arguments):
    with pytest.raises(ValueError, match=r"block|bits"):
        KVCacheManager(*arguments)
