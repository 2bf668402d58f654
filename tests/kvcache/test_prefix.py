from kvcache.chain import BlockChain
from kvcache.keys import MediaKey
from kvcache.prefix import PrefixCache
from kvcache.sequence import TokenSequence
from kvcache.spans import MediaSpan

CAT, DOG = MediaKey(b"c" * 32), MediaKey(b"d" * 32)


def chain_of(ids, spans=(), namespace=b"", hash_bits=128):
    tokens = TokenSequence(ids, spans)
    chain = BlockChain(namespace, 2, hash_bits)
    chain.extend(tokens, len(tokens) // 2)
    return tokens, chain


def hold(cache: PrefixCache, ids, first_block=0, **kwargs):
    tokens, chain = chain_of(ids, **kwargs)
    num_held = cache.find(chain, tokens, len(tokens) // 2)
    for index in range(num_held, len(tokens) // 2):
        chain.nodes.append(cache.stage(chain, first_block + index))
    cache.check_integrity()
    return chain.nodes


def found(cache: PrefixCache, ids, **kwargs) -> list[int]:
    tokens, chain = chain_of(ids, **kwargs)
    assert cache.find(chain, tokens, len(tokens) // 2) == len(chain.nodes)
    return [node.block for node in chain.nodes]


def test_finds_the_longest_prefix():
    cache = PrefixCache()
    hold(cache, [1, 2, 3, 4, 5, 6])
    assert found(cache, [1, 2, 3, 4, 9, 9]) == [0, 1]
    assert found(cache, [3, 4]) == []
    assert found(cache, [1, 2, 5, 6]) == [0]
    assert found(cache, [9, 9, 1, 2]) == []


def test_media_count_by_content_and_place():
    cache = PrefixCache()
    hold(cache, [0, 0, 0, 0], spans=[MediaSpan(0, 4, CAT)])
    assert found(cache, [0, 0, 0, 0], spans=[MediaSpan(0, 4, CAT)]) == [0, 1]
    assert found(cache, [0, 0, 0, 0], spans=[MediaSpan(0, 3, CAT)]) == [0]
    assert found(cache, [0, 0, 0, 0], spans=[MediaSpan(0, 4, DOG)]) == []
    assert found(cache, [0, 0, 0, 0], spans=[MediaSpan(0, 4, CAT, 2)]) == []
    assert found(cache, [0, 0, 0, 0]) == []


def test_every_single_field_is_compared_when_keys_collide(monkeypatch):
    monkeypatch.setattr("kvcache.chain.block_key", lambda *args: b"!")
    cache = PrefixCache()
    hold(cache, [1, 2, 3, 4])
    hold(cache, [0, 0], first_block=2, spans=[MediaSpan(0, 2, CAT)])
    hold(cache, [1, 2, 3, 4], first_block=4, namespace=b"n")
    assert found(cache, [1, 2, 3, 4]) == [0, 1]
    assert found(cache, [1, 2, 3, 4], namespace=b"n") == [4, 5]
    assert found(cache, [1, 2, 3, 4], namespace=b"m") == []
    assert found(cache, [3, 4]) == []
    assert found(cache, [1, 2, 1, 2]) == [0]
    assert found(cache, [0, 0], spans=[MediaSpan(0, 2, CAT)]) == [2]
    assert found(cache, [0, 0], spans=[MediaSpan(0, 2, CAT, 1)]) == []
    assert found(cache, [0, 0], spans=[MediaSpan(0, 2, DOG)]) == []


def test_forgetting_drops_all_that_came_after():
    cache = PrefixCache()
    root, child, grandchild = hold(cache, [1, 2, 3, 4, 5, 6])
    (_, sibling) = hold(cache, [1, 2, 7, 8], first_block=5)
    assert cache.forget(child) == [child, grandchild]
    cache.check_integrity()
    assert (root.alive, child.alive, grandchild.alive, sibling.alive) == (True, False, False, True)
    assert (cache.at(0), cache.at(1), cache.at(6)) == (root, None, sibling)
    assert len(cache) == 2


def test_a_child_does_not_outlive_its_parent_in_a_recycled_block():
    """Same tokens, same block number, but a new parent: what was computed after the old one is not found."""
    cache = PrefixCache()
    (root, _) = hold(cache, [1, 2, 3, 4])
    cache.forget(root)
    hold(cache, [1, 2])
    assert found(cache, [1, 2, 3, 4]) == [0]


def test_a_chain_notices_what_was_forgotten_since():
    cache = PrefixCache()
    _, child, _ = hold(cache, [1, 2, 3, 4, 5, 6])
    tokens, chain = chain_of([1, 2, 3, 4, 5, 6])
    assert cache.find(chain, tokens, 3) == 3
    cache.forget(child)
    assert cache.find(chain, tokens, 3) == 1
    hold(cache, [1, 2, 3, 4], first_block=7)
    assert cache.find(chain, tokens, 3) == 2
    assert [node.block for node in chain.nodes] == [0, 8]
