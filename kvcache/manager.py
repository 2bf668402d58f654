"""The questions that a scheduler asks of the cache. Knows owners by number; neither requests nor tensors."""

from array import array
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from kvcache.block_keys import MAX_HASH_BITS
from kvcache.chain import BlockChain, CachedBlock
from kvcache.holding import Holding
from kvcache.match import BlockCopy, PrefixMatch, Ranges, clamped, reach
from kvcache.pool import BlockPool
from kvcache.prefix import PrefixCache
from kvcache.promises import Promises
from kvcache.sequence import BLOCK_SIZE, TokenSequence


class KVCacheManager:
    """Protocol, for each sequence: match -> allocate -> copies -> (grow, stage, commit | rollback)* -> free.

    `owner` is the scheduler's number of a sequence. A *step* lies between two calls of commit_step /
    rollback_step. Whoever holds a cached block holds all those before it, and a sequence's last blocks are
    freed first. So what is evicted has no descendant that is held, and the LRU order gives up a prefix from
    its end.

    num_evicted_blocks: cached blocks given up for others since the start.
    """

    def __init__(self, num_blocks: int, block_size: int = BLOCK_SIZE, hash_bits: int = MAX_HASH_BITS) -> None:
        if block_size < 1:
            raise ValueError(f"a block needs at least one token, not {block_size}")
        if hash_bits % 8 or not 8 <= hash_bits <= MAX_HASH_BITS:
            raise ValueError(f"hash_bits must be a multiple of 8 up to {MAX_HASH_BITS}, not {hash_bits}")
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._hash_bits = hash_bits
        self._pool = BlockPool(num_blocks)
        self._prefix = PrefixCache()
        self._promises = Promises(block_size)
        self._owners: dict[int, Holding] = {}
        self._copies: list[BlockCopy] = []
        self._chains: WeakKeyDictionary[TokenSequence, dict[bytes, BlockChain]] = WeakKeyDictionary()
        self.num_evicted_blocks = 0

    def match(self, tokens: TokenSequence, namespace: bytes, indivisible: Ranges = ()) -> PrefixMatch:
        """Longest cached prefix: full blocks, published or staged in this step, then the beginning of a
        published one. Changes nothing.

        indivisible: token ranges [start, end) that a hit may not end inside (bidirectional spans). Asking
        again for the same sequence costs little: keys are kept, and what was found is only checked for life.
        """
        chain = self._chain(tokens, namespace)
        limit = self._num_reusable(tokens)
        found = self._prefix.find(chain, tokens, limit)
        num_tokens, donor = reach(self._prefix, chain, tokens, found, indivisible)
        ends = range(found + 1, limit + 1)
        further = (end for end in ends if clamped(end * self.block_size, indivisible) > num_tokens)
        goal = next(further, None)
        awaits = goal is not None and self._promises.cover(tokens, chain, found, goal)
        blocks = tuple(node.block for node in chain.nodes[: num_tokens // self.block_size])
        return PrefixMatch(num_tokens, blocks, awaits, donor)

    def allocate(
        self,
        owner: int,
        tokens: TokenSequence,
        namespace: bytes,
        match: PrefixMatch,
        num_tokens: int,
        num_spare: int = 0,
    ) -> bool:
        """Give `owner` the matched blocks plus fresh ones, so that `num_tokens` tokens, more than matched,
        have a place; promise the prompt's blocks.

        False (and nothing changed) when fewer than `num_spare` blocks would stay free, or when what was
        matched has been evicted since: match again. ValueError if the owner has blocks already. The manager
        keeps `tokens` (it grows by append).
        """
        if owner in self._owners:
            raise ValueError(f"owner {owner} has blocks already")
        chain = self._chain(tokens, namespace)
        num_matched = len(match.blocks)
        if self._prefix.find(chain, tokens, self._num_reusable(tokens)) < num_matched:
            return False
        chain = chain.fork(num_matched)
        donor = match.donor
        if match.blocks != tuple(node.block for node in chain.nodes) or (donor and not donor.alive):
            return False
        num_fresh = max(0, self._num_blocks_for(num_tokens) - num_matched)
        num_revived = sum(1 for block in match.blocks if not self._pool.count(block))
        if num_fresh + num_revived + num_spare > self._pool.num_free:
            return False
        for block in match.blocks:
            self._pool.acquire(block)
        if donor:
            self._refresh(donor.block)
        table = array("i", [*match.blocks, *self._take(num_fresh)])
        if donor:
            self._copies.append(BlockCopy(donor.block, table[num_matched]))
        borrowed = [node for node in chain.nodes if node.staged]
        num_written = num_matched * self.block_size
        self._owners[owner] = Holding(tokens, chain, table, borrowed, num_written, num_written)
        num_full = len(tokens) // self.block_size
        self._promises.make(owner, tokens, chain, num_full)
        return True

    def take_copies(self) -> list[BlockCopy]:
        """What was allocated since the last call begins with these: do them all at once, before the step
        computes.

        A source may have been given away since; it is written in this step, so after it was copied.
        """
        copies, self._copies = self._copies, []
        return copies

    def grow(self, owner: int, num_tokens: int) -> bool:
        """Add blocks so that `num_tokens` tokens in all have a place. False, nothing changed, when the pool
        is too small."""
        table = self._owners[owner].table
        num_fresh = max(0, self._num_blocks_for(num_tokens) - len(table))
        if num_fresh > self._pool.num_free:
            return False
        table.extend(self._take(num_fresh))
        return True

    def stage(self, owner: int, num_computed_tokens: int) -> None:
        """This step will compute the sequence up to `num_computed_tokens`: its full blocks may be shared
        within this step.

        ValueError where the sequence, or its place, is shorter. KeyError for an unknown owner.
        """
        held = self._owners[owner]
        if num_computed_tokens > min(len(held.tokens), len(held.table) * self.block_size):
            raise ValueError(f"owner {owner} has no {num_computed_tokens} tokens, or no place for them")
        if held.orphaned:
            return
        held.num_staged = num_computed_tokens
        nodes = held.chain.nodes
        held.chain.trim()
        num_full = num_computed_tokens // self.block_size
        held.chain.extend(held.tokens, num_full)
        for index in range(len(nodes), num_full):
            node = self._prefix.find_next(held.chain)
            if node is None:
                node = self._prefix.stage(held.chain, held.table[index])
                held.staged.append(node)
            else:
                self._pool.acquire(node.block)
                held.duplicates[index] = node
            nodes.append(node)

    def commit_step(self) -> list[int]:
        """The step succeeded: publish all that was staged. A block equal to a held one is swapped for the
        held one.

        Returns the owners that had matched blocks of an owner that was freed between staging them and this
        call. These may never have been computed: the scheduler must drop the step's result for those it
        returns, `free` them and start them again. Finished sequences are therefore freed after this call.
        """
        for held in self._owners.values():
            held.num_written = held.num_staged
            for node in held.staged:
                self._prefix.publish(node)
                self._published(node)
            for index, node in held.duplicates.items():
                own, held.table[index] = held.table[index], node.block
                self._release(own)
        return self._end_step()

    def rollback_step(self) -> list[int]:
        """The step failed: forget what was staged. Returns the owners that had matched a block staged in this
        step; the scheduler must `free` them and start them again."""
        self._unstage([node for held in self._owners.values() for node in held.staged])
        for held in self._owners.values():
            held.num_staged = held.num_written
            self._drop_duplicates(held, list(held.duplicates))
        return self._end_step()

    def free(self, owner: int) -> None:
        """Return the owner's blocks (tail first) to the LRU order, still findable; withdraw its promises.
        Unknown owner: no-op.

        What it has staged in this step is forgotten, since the step may go without it (see `commit_step`).
        """
        held = self._owners.pop(owner, None)
        if held is None:
            return
        self._promises.withdraw(owner)
        self._copies = [copy for copy in self._copies if copy.target not in held.table]
        self._unstage(held.staged)
        self._drop_duplicates(held, list(held.duplicates))
        self._keep_tail(held)
        for block in reversed(held.table):
            self._release(block)

    def block_table(self, owner: int) -> "array[int]":
        """Block ids in order, int32. Live: valid until the next call that changes the manager."""
        return self._owners[owner].table

    @property
    def num_free_blocks(self) -> int:
        return self._pool.num_free

    @property
    def num_cached_blocks(self) -> int:
        """Blocks whose content a later prompt can find, held or free."""
        return len(self._prefix)

    def check_integrity(self) -> None:
        """Raise AssertionError unless free + held == total and every count is recomputable from the
        tables."""
        self._prefix.check_integrity()
        self._promises.check_integrity()
        assert self._promises.owners == self._owners.keys(), "promises of owners that do not run"
        owners = self._owners.values()
        references = [block for held in owners for block in held.table]
        references += [node.block for held in owners for node in held.duplicates.values()]
        self._pool.check_integrity(references)
        staged = {node.serial for held in owners for node in held.staged}
        for held in owners:
            for index, node in enumerate(held.chain.nodes):
                own = index not in held.duplicates
                assert not node.alive or not own or node.block == held.table[index], "table and chain differ"
        for block in range(self.num_blocks):
            if node := self._prefix.at(block):
                assert node.staged == (node.serial in staged), "staged by nobody"
                held_alone = (
                    node.parent and self._pool.count(block) and not self._pool.count(node.parent.block)
                )
                assert not held_alone, "a held block's parent is free"

    def _chain(self, tokens: TokenSequence, namespace: bytes) -> BlockChain:
        chains = self._chains.setdefault(tokens, {})
        if namespace not in chains:
            chains[namespace] = BlockChain(namespace, self.block_size, self._hash_bits)
        return chains[namespace]

    def _num_reusable(self, tokens: TokenSequence) -> int:
        """Full blocks of the prompt, less what keeps its last token to be computed."""
        return max(0, len(tokens) - 1) // self.block_size

    def _num_blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def _take(self, num_blocks: int) -> list[int]:
        return [self._take_one() for _ in range(num_blocks)]

    def _take_one(self) -> int:
        block = self._pool.take()
        if node := self._prefix.at(block):
            self.num_evicted_blocks += self._forget(node)
        return block

    def _refresh(self, block: int) -> None:
        """It was of use: if it is free, it is now the last to be handed out."""
        self._pool.acquire(block)
        self._release(block)

    def _keep_tail(self, held: Holding) -> None:
        """Make what was written past the full blocks findable, unless as much is known already."""
        num_full, num_rest = divmod(held.num_written, self.block_size)
        held.chain.trim()
        if not num_rest or len(held.chain.nodes) != num_full:
            return
        content = held.tokens.piece(num_full * self.block_size, held.num_written)
        parent = held.chain.nodes[-1] if num_full else None
        known = self._prefix.beginnings.longest(parent, held.chain.namespace, content)
        if not known or known.num_tokens < num_rest:
            self._published(self._prefix.keep_tail(held.chain, held.table[num_full], content))

    def _published(self, node: CachedBlock) -> None:
        """Shorter beginnings of it are of no more use."""
        for tail in self._prefix.beginnings.superseded(node):
            self._forget(tail)

    def _release(self, block: int) -> None:
        self._pool.release(block, reusable=self._prefix.at(block) is not None)

    def _forget(self, node: CachedBlock) -> int:
        """Nobody finds it, or what comes after it, any more. Returns how many blocks that are."""
        dropped = self._prefix.forget(node)
        for lost in dropped:
            self._pool.demote(lost.block)
        return len(dropped)

    def _unstage(self, nodes: Iterable[CachedBlock]) -> None:
        """Forget nodes of this step, and all that others have built on them in it."""
        for node in nodes:
            if node.alive:
                self._forget(node)
        for held in self._owners.values():
            held.staged = [node for node in held.staged if node.alive]
            held.orphaned |= any(not node.alive for node in held.borrowed)
            self._drop_duplicates(held, [i for i, node in held.duplicates.items() if not node.alive])

    def _drop_duplicates(self, held: Holding, indices: list[int]) -> None:
        """Keep to the own blocks. The chain ends before them, so they are staged again with the sequence's
        next step."""
        for index in indices:
            self._release(held.duplicates.pop(index).block)
        if indices:
            del held.chain.nodes[min(indices) :]

    def _end_step(self) -> list[int]:
        for held in self._owners.values():
            held.staged.clear()
            held.duplicates.clear()
            held.borrowed.clear()
        return [owner for owner, held in self._owners.items() if held.orphaned]
