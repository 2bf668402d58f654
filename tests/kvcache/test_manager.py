"""Blocks given and taken back. What is found, staged and promised has files of its own; what all of it does
together is tried in test_manager_stateful."""

import pytest

from kvcache.manager import KVCacheManager
from kvcache.match import PrefixMatch
from tests.kvcache.managers import compute, free_order, manager, start, text


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

    def test_leaves_as_many_free_as_it_is_told(self):
        cache = manager(6)
        compute(cache, 1, text(12))
        cache.free(1)
        match = cache.match(text(16), b"")
        assert not cache.allocate(2, text(16), b"", match, 16, num_spare=3)  # three of its four were free
        assert cache.allocate(2, text(16), b"", match, 16, num_spare=2)
        assert cache.num_free_blocks == 2

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
        table = cache.block_table(1)[:]
        assert cache.grow(1, 8)
        assert cache.block_table(1) == table
        assert cache.grow(1, 9)
        assert cache.block_table(1)[:2] == table
        assert not cache.grow(1, 17)
        assert len(cache.block_table(1)) == 3
        cache.check_integrity()

    def test_evictions_are_counted(self):
        cache = manager(4)
        compute(cache, 1, text(12))
        compute(cache, 2, text(13))
        cache.free(1)
        cache.free(2)
        assert cache.num_evicted_blocks == 0
        compute(cache, 3, text(16, start=100))
        assert cache.num_evicted_blocks == 4


class TestFree:
    def test_unknown_owner_is_nothing(self):
        manager().free(7)

    def test_freed_blocks_are_found_until_evicted_tail_first(self):
        cache = manager(4)
        compute(cache, 1, text(14))
        blocks = cache.block_table(1)[:]
        cache.free(1)
        assert free_order(cache) == [blocks[3], blocks[2], blocks[1], blocks[0]]
        assert cache.match(text(14), b"").num_tokens == 13
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
