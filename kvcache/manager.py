"""The questions that a scheduler asks of the cache."""

from typing import NamedTuple, Protocol

from kvcache.sequence import TokenSequence


class PrefixMatch(NamedTuple):
    """How much of a prompt need not be computed.

    num_tokens: a multiple of the block size, at most prompt length - 1, never inside an indivisible range.
    blocks: the held blocks that cover it. awaits_promise: a running sequence has promised the next block.
    """

    num_tokens: int
    blocks: tuple[int, ...]
    awaits_promise: bool


class KVCacheManager(Protocol):  # CONTRACT: to be replaced by the class of this name
    """Protocol, for each sequence: match -> allocate -> (grow, stage, commit | rollback)* -> free.

    `owner` is the scheduler's number of a sequence. A *step* lies between two calls of commit_step / rollback_step.
    """

    block_size: int
    num_blocks: int

    def match(
        self, tokens: TokenSequence, namespace: bytes, indivisible: tuple[tuple[int, int], ...] = ()
    ) -> PrefixMatch:
        """Longest cached prefix, among published blocks and those staged in this step. Changes nothing but LRU order.

        indivisible: token ranges [start, end) that a hit may not end inside (bidirectional spans).
        """
        ...

    def allocate(self, owner: int, tokens: TokenSequence, namespace: bytes, match: PrefixMatch, num_tokens: int) -> bool:
        """Give `owner` the matched blocks plus fresh ones, so that `num_tokens` tokens have a place; promise the prompt's blocks.

        False (and nothing changed) when there are too few free blocks. The manager keeps `tokens` (it grows by append).
        """
        ...

    def grow(self, owner: int, num_tokens: int) -> bool:
        """Add blocks so that `num_tokens` tokens in all have a place. False, nothing changed, when the pool is too small."""
        ...

    def stage(self, owner: int, num_computed_tokens: int) -> None:
        """This step will compute the sequence up to `num_computed_tokens`: its full blocks may be shared within this step."""
        ...

    def commit_step(self) -> None:
        """The step succeeded: publish all that was staged. A block equal to a held one is swapped for the held one."""
        ...

    def rollback_step(self) -> list[int]:
        """The step failed: forget what was staged. Returns the owners that had matched a block staged in this step;
        the scheduler must `free` them and start them again."""
        ...

    def free(self, owner: int) -> None:
        """Return the owner's blocks (tail first) to the LRU order, still findable; withdraw its promises. Unknown owner: no-op."""
        ...

    def block_table(self, owner: int) -> list[int]:
        """Block ids in order. Live: valid until the next call that changes the manager."""
        ...

    @property
    def num_free_blocks(self) -> int: ...

    def check_integrity(self) -> None:
        """Raise AssertionError unless free + held == total and every count is recomputable from the tables."""
        ...
