"""Blocks by number: how often each is referenced, and in which order the free ones are handed out again.

Knows nothing of what a block holds; `prefix` does, and the manager tells each of the other.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise


class BlockPool:
    """Reference counts and the free list of blocks 0..num_blocks-1.

    The free list is the LRU order: `take` hands out its oldest block, `release` adds to its recent end. It is
    linked through two arrays, so that a block anywhere in it is taken up again (a cache hit) in O(1).

    Protocol: take (count 1) -> acquire (+1)* -> release (-1)*; a block whose count falls to 0 is free.
    """

    def __init__(self, num_blocks: int) -> None:
        if num_blocks < 1:
            raise ValueError(f"a pool needs at least one block, not {num_blocks}")
        self.num_blocks = num_blocks
        self.num_free = num_blocks
        self._counts = [0] * num_blocks
        # Entry `num_blocks` anchors both ends: `_newer` of it is the oldest free block, `_older` the newest.
        self._newer = [*range(1, num_blocks + 1), 0]
        self._older = [num_blocks, *range(num_blocks)]

    def count(self, block: int) -> int:
        """How many references the block has; 0 means free."""
        return self._counts[block]

    def take(self) -> int:
        """The oldest free block, now referenced once. IndexError when none is free."""
        if not self.num_free:
            raise IndexError("no free block")
        block = self._newer[self.num_blocks]
        self.acquire(block)
        return block

    def acquire(self, block: int) -> None:
        """One more reference; a free block leaves the free list."""
        if not self._counts[block]:
            self._unlink(block)
        self._counts[block] += 1

    def release(self, block: int, reusable: bool) -> None:
        """One reference less. reusable: its content may be found again, so it is handed out last, else
        first."""
        if not self._counts[block]:
            raise ValueError(f"block {block} is free already")
        self._counts[block] -= 1
        if not self._counts[block]:
            self._link(block, self._older[self.num_blocks] if reusable else self.num_blocks)

    def demote(self, block: int) -> None:
        """A free block whose content can't be found any more: hand it out first."""
        if not self._counts[block]:
            self._unlink(block)
            self._link(block, self.num_blocks)

    def free_blocks(self) -> Iterator[int]:
        """Free blocks, oldest first."""
        block = self._newer[self.num_blocks]
        while block != self.num_blocks:
            yield block
            block = self._newer[block]

    def check_integrity(self, references: Iterable[int]) -> None:
        """AssertionError unless the counts are those of `references` (a block once for each reference to it),
        and exactly the others are linked in the free list."""
        counts = [0] * self.num_blocks
        for block in references:
            counts[block] += 1
        assert counts == self._counts, "reference counts differ from the tables"
        free = list(self.free_blocks())
        assert len(free) == self.num_free, "free list and its length differ"
        assert sorted(free) == [b for b in range(self.num_blocks) if not counts[b]], "free + held != total"
        ring = [self.num_blocks, *free, self.num_blocks]
        assert all(self._older[new] == old for old, new in pairwise(ring)), "broken links"

    def _unlink(self, block: int) -> None:
        older, newer = self._older[block], self._newer[block]
        self._newer[older] = newer
        self._older[newer] = older
        self.num_free -= 1

    def _link(self, block: int, older: int) -> None:
        newer = self._newer[older]
        self._newer[older] = self._older[newer] = block
        self._older[block], self._newer[block] = older, newer
        self.num_free += 1
