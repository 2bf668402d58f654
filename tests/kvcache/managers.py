"""A manager of small blocks, and sequences started and computed on it."""

from kvcache.keys import MediaKey
from kvcache.manager import KVCacheManager
from kvcache.match import PrefixMatch
from kvcache.sequence import TokenSequence

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
