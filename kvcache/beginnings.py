"""Cached blocks by what they begin with: finds what two sequences share of the block in which they part."""

from itertools import islice, takewhile
from typing import NamedTuple

from kvcache.chain import CachedBlock
from kvcache.sequence import TokenBlock

MOST_COMPARED = 8
"""Of the blocks that begin alike, the newest so many are compared: a system prompt may have thousands of
successors."""


class Shared(NamedTuple):
    """The first `num_tokens` tokens of `node` are those that were asked for."""

    node: CachedBlock
    num_tokens: int


class Beginnings:
    """Published blocks by parent, namespace and first token, full ones and tails alike, oldest first."""

    def __init__(self) -> None:
        self._alike: dict[tuple[int, bytes, int], dict[int, CachedBlock]] = {}

    def add(self, node: CachedBlock) -> None:
        self._alike.setdefault(_place(node), {})[node.serial] = node

    def remove(self, node: CachedBlock) -> None:
        """Not there (it was never published): no-op."""
        alike = self._alike.get(_place(node), {})
        if alike.pop(node.serial, None) and not alike:
            del self._alike[_place(node)]

    def longest(self, parent: CachedBlock | None, namespace: bytes, content: TokenBlock) -> Shared | None:
        """The block after `parent` (None: the first) that shares the most tokens with `content`, which are
        some."""
        if not content.ids:
            return None
        newest = self._newest((parent.serial if parent else 0, namespace, content.ids[0]))
        shared = [Shared(node, _num_shared(content, node.content)) for node in newest]
        return max(shared, key=lambda found: found.num_tokens, default=None)

    def superseded(self, node: CachedBlock) -> list[CachedBlock]:
        """Other tails of which the published block `node` holds all."""
        tails = [tail for tail in self._newest(_place(node)) if tail.key is None and tail is not node]
        return [tail for tail in tails if _num_shared(node.content, tail.content) == len(tail.content.ids)]

    def _newest(self, place: tuple[int, bytes, int]) -> list[CachedBlock]:
        return list(islice(reversed(self._alike.get(place, {}).values()), MOST_COMPARED))

    def check_integrity(self, published: dict[int, CachedBlock]) -> None:
        """AssertionError unless exactly these nodes, by serial, are here, each in its place."""
        assert all(self._alike.values()), "an empty entry was left behind"
        here = {node.serial: node for alike in self._alike.values() for node in alike.values()}
        assert here == published, "published blocks and their beginnings differ"
        assert all(place == _place(n) for place, alike in self._alike.items() for n in alike.values())


def _num_shared(ours: TokenBlock, theirs: TokenBlock) -> int:
    pairs = zip(ours.units(), theirs.units(), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _place(node: CachedBlock) -> tuple[int, bytes, int]:
    return node.parent_serial, node.namespace, node.content.ids[0]
