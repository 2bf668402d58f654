"""What a prompt finds, and what it may not find."""

import gc

import pytest

from kvcache.manager import PrefixMatch
from kvcache.sequence import TokenSequence
from kvcache.spans import MediaSpan
from tests.kvcache.managers import CAT, DOG, compute, manager, text


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
