"""What running sequences are going to compute, and who waits for it."""

import pytest

from kvcache.manager import KVCacheManager
from kvcache.match import PrefixMatch
from kvcache.sequence import TokenSequence
from kvcache.spans import MediaSpan
from tests.kvcache.managers import CAT, DOG, B, compute, manager, text


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
        assert cache.match(text(20), b"", ((5, 15), (15, 18))).awaits_promise
        assert not cache.match(text(20), b"", ((4, 15), (14, 18))).awaits_promise

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
