"""What a prompt finds, and what it may not find."""

import gc

import pytest

from kvcache.beginnings import MOST_COMPARED
from kvcache.match import PrefixMatch
from kvcache.sequence import TokenSequence
from kvcache.spans import MediaSpan
from tests.kvcache.managers import CAT, DOG, compute, free_order, manager, start, text


class TestMatch:
    def test_finds_all_but_a_token_to_compute(self):
        cache = manager()
        compute(cache, 1, text(10))
        blocks = cache.block_table(1)
        for num_tokens, expected in ((9, 8), (8, 7), (7, 6), (6, 5), (5, 4), (2, 1), (20, 8)):
            match = cache.match(text(num_tokens), b"")
            assert match.num_tokens == expected
            assert match.blocks == tuple(blocks[: expected // 4])
            assert (match.donor.block if match.donor else None) == (
                blocks[expected // 4] if expected % 4 else None
            )

    @pytest.mark.parametrize("num_tokens", [0, 1])
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
            ([MediaSpan(2, 7, CAT)], 7),
            ([MediaSpan(2, 8, DOG)], 2),
            ([MediaSpan(1, 7, CAT)], 1),
            ([MediaSpan(2, 8, CAT, 1)], 2),
            ([MediaSpan(2, 4, CAT), MediaSpan(4, 8, DOG, 2)], 4),
            ([MediaSpan(2, 6, CAT), MediaSpan(6, 8, DOG, 4)], 6),
            ([MediaSpan(2, 6, CAT), MediaSpan(6, 8, CAT, 3)], 6),
            ([MediaSpan(2, 6, CAT), MediaSpan(6, 8, CAT, 4)], 8),
            ([], 2),
        ]:
            assert cache.match(TokenSequence([0] * 9, spans), b"").num_tokens == expected

    @pytest.mark.parametrize(
        ("indivisible", "expected"),
        [
            ((), 16),
            (((14, 18),), 14),
            (((16, 18),), 16),
            (((10, 16),), 16),
            (((12, 18), (9, 13)), 9),  # the start of one range lies inside another
            (((9, 13), (12, 18)), 9),
            (((2, 17),), 2),
            (((0, 17),), 0),
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
        assert cache.match(tokens, b"").num_tokens == 7
        tokens.append(8)
        assert cache.match(tokens, b"").num_tokens == 8

    def test_a_repeated_match_keys_and_compares_nothing_again(self, monkeypatch):
        cache = manager()
        compute(cache, 1, text(41))
        tokens = text(41)
        found = cache.match(tokens, b"")
        assert found.num_tokens == 40
        monkeypatch.setattr("kvcache.chain.block_key", None)
        monkeypatch.setattr("kvcache.prefix.PrefixCache.find_next", None)
        assert cache.match(tokens, b"") == found
        assert cache.allocate(2, tokens, b"", found, 41)

    def test_keys_go_with_their_sequence(self):
        cache = manager()
        tokens = text(40)
        cache.match(tokens, b"")
        del tokens
        gc.collect()
        assert not cache._chains


class TestInsideABlock:
    """Where a prompt parts from what was computed inside a block, what they share of it is copied."""

    def test_the_rest_of_a_finished_sequence_is_kept(self):
        cache = manager()
        compute(cache, 1, text(10))
        assert cache.match(text(12), b"").num_tokens == 8
        cache.free(1)
        match = compute(cache, 2, text(12))
        assert match.num_tokens == 10
        ((source, target),) = cache.take_copies()
        assert (source, target) == (match.donor.block, cache.block_table(2)[2])
        assert cache.take_copies() == []

    @pytest.mark.parametrize("num_tokens", [3, 7])
    def test_a_step_that_did_not_happen_leaves_no_rest(self, num_tokens):
        cache = manager()
        start(cache, 1, text(num_tokens))
        cache.rollback_step()
        compute(cache, 2, text(3, start=100))  # its success is another's
        cache.free(1)
        assert cache.match(text(9), b"").num_tokens == 0

    def test_nothing_is_copied_from_what_this_step_writes(self):
        cache = manager()
        start(cache, 1, text(8))
        assert cache.match(text(8), b"").num_tokens == 4
        cache.commit_step()
        assert cache.match(text(8), b"").num_tokens == 7

    def test_what_is_left_then_ends_inside_no_indivisible_range_either(self):
        cache = manager()
        start(cache, 1, text(16))
        assert cache.match(text(20), b"", ((9, 13), (14, 18))).num_tokens == 8
        cache.commit_step()
        assert cache.match(text(20), b"", ((9, 13), (14, 18))).num_tokens == 14

    def test_a_donor_was_of_use_and_is_given_away_last(self):
        cache = manager()
        for owner, first in enumerate((0, 100)):
            compute(cache, owner, text(3, start=first))
            cache.free(owner)
        match = start(cache, 2, text(4))
        assert match.donor
        assert free_order(cache)[-1] == match.donor.block

    def test_a_rest_that_says_nothing_new_is_not_kept(self):
        cache = manager()
        for owner, num_tokens in enumerate((7, 7, 6, 8)):
            compute(cache, owner, text(num_tokens))
            cache.free(owner)
            assert cache.num_cached_blocks == 2
        for owner in (5, 6):
            compute(cache, owner, text(7))
            cache.free(owner)
            assert cache.num_cached_blocks == 2

    def test_the_longest_of_the_newest_is_found(self):
        cache = manager(32)
        tails = [[1, 9, 9], [1, 2, 9], *([1, n, n] for n in range(10, 10 + MOST_COMPARED - 1))]
        for owner, ids in enumerate(tails):
            compute(cache, owner, TokenSequence(ids))
            cache.free(owner)
        assert cache.match(TokenSequence([1, 2, 9, 0]), b"").num_tokens == 3
        assert cache.match(TokenSequence([1, 9, 9, 0]), b"").num_tokens == 1

    def test_a_donor_may_be_given_away_for_what_it_is_copied_into(self):
        """A pool of just the request's size: it starts all the same, and the copy comes first."""
        cache = manager(2)
        compute(cache, 1, text(6))
        cache.free(1)
        match = start(cache, 2, text(8))
        assert match.num_tokens == 6
        assert len(cache.take_copies()) == 1

    def test_a_forgotten_donor_is_matched_again(self):
        cache = manager(3)
        compute(cache, 1, text(6))
        cache.free(1)
        tokens = text(8)
        match = cache.match(tokens, b"")
        compute(cache, 2, text(8, start=100))
        cache.free(2)
        assert cache.match(tokens, b"").blocks == match.blocks
        assert not cache.allocate(3, tokens, b"", match, 8)
        assert cache.take_copies() == []

    def test_a_copy_goes_with_the_owner_that_it_was_for(self):
        cache = manager()
        compute(cache, 1, text(6))
        cache.free(1)
        start(cache, 2, text(8))
        cache.free(2)
        assert cache.take_copies() == []
