"""Which blocks running sequences are going to compute, so that others need not. Knows no block numbers."""

from typing import NamedTuple

from kvcache.block_keys import BlockKey
from kvcache.chain import BlockChain
from kvcache.sequence import TokenSequence


class Promise(NamedTuple):
    """One owner's word that it will compute the first `num_blocks` blocks of its sequence."""

    tokens: TokenSequence
    chain: BlockChain
    num_blocks: int


class Promises:
    """Promises by owner, found by block key and compared as exactly as hits are.

    Promised blocks have no parent in the tree of prefixes yet, so whole prefixes are compared instead of
    parents.
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._by_owner: dict[int, Promise] = {}
        self._owners: dict[BlockKey, dict[int, None]] = {}

    def make(self, owner: int, tokens: TokenSequence, chain: BlockChain, num_blocks: int) -> None:
        chain.extend(tokens, num_blocks)
        self._by_owner[owner] = Promise(tokens, chain, num_blocks)
        for index in range(num_blocks):
            self._owners.setdefault(chain.key(index), {})[owner] = None

    def withdraw(self, owner: int) -> None:
        """Unknown owner: no-op. What others promised, the same blocks too, stands."""
        promise = self._by_owner.pop(owner, None)
        if promise is None:
            return
        for key in {promise.chain.key(index) for index in range(promise.num_blocks)}:
            owners = self._owners[key]
            del owners[owner]
            if not owners:
                del self._owners[key]

    def cover(self, tokens: TokenSequence, chain: BlockChain, start: int, end: int) -> bool:
        """Whether somebody has promised blocks [start, end) after the very prefix that `chain` has found."""
        promises = [self._by_owner[owner] for owner in self._owners.get(chain.key(start), ())]
        return any(
            end <= promise.num_blocks
            and all(promise.chain.content(index) == chain.content(index) for index in range(start, end))
            and self._same_prefix(promise, tokens, chain, start)
            for promise in promises
        )

    def _same_prefix(
        self, promise: Promise, tokens: TokenSequence, chain: BlockChain, num_blocks: int
    ) -> bool:
        if promise.chain.namespace != chain.namespace:
            return False
        if num_blocks == 0:
            return True
        theirs = promise.chain.nodes
        if len(theirs) >= num_blocks and theirs[num_blocks - 1].alive:
            return theirs[num_blocks - 1] is chain.nodes[num_blocks - 1]
        return tokens.shares_prefix(promise.tokens, num_blocks * self._block_size)

    def check_integrity(self) -> None:
        """AssertionError unless the keys are exactly those of the owners' promises."""
        promised = {(p.chain.key(i), o) for o, p in self._by_owner.items() for i in range(p.num_blocks)}
        assert promised == {(key, owner) for key, owners in self._owners.items() for owner in owners}
        assert all(self._owners.values()), "an empty entry was left behind"

    @property
    def owners(self) -> frozenset[int]:
        return frozenset(self._by_owner)
