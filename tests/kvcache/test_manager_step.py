"""What a step may share, publishes when it succeeds, and forgets when it fails."""

import pytest

from kvcache.manager import PrefixMatch
from tests.kvcache.managers import compute, free_order, manager, start, text


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
        assert cache.match(text(20), b"").num_tokens == 8
        cache.free(1)
        assert cache.match(text(20), b"").num_tokens == 9

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
        own = cache.block_table(2)[:]
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
        assert cache.match(text(9), b"").num_tokens == 8

    def test_a_failed_step_keeps_own_blocks_that_equal_held_ones(self):
        cache = manager()
        compute(cache, 1, text(8))
        tokens = text(8)
        assert cache.allocate(2, tokens, b"", PrefixMatch(0, (), False), 8)
        own = cache.block_table(2)[:]
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
