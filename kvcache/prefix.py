"""Which blocks can be found again, and by what. Knows contents and block numbers; neither owners nor
counts."""

from itertools import count

from kvcache.beginnings import Beginnings
from kvcache.block_keys import BlockKey
from kvcache.chain import BlockChain, CachedBlock
from kvcache.sequence import TokenBlock, TokenSequence


class PrefixCache:
    """A tree of cached blocks with an index by key, and one by beginning for hits that end inside a block.

    Protocol, for each full block: stage -> publish (its step succeeded) or forget (it failed, or its memory
    is reused). The key only narrows the search: a hit has the same token ids, the same parts of the same
    media, the same namespace and the same parent.
    """

    def __init__(self) -> None:
        self.beginnings = Beginnings()
        self._index: dict[BlockKey, list[CachedBlock]] = {}
        self._by_block: dict[int, CachedBlock] = {}
        self._serials = count(1)

    def __len__(self) -> int:
        return len(self._by_block)

    def at(self, block: int) -> CachedBlock | None:
        """What can be found in this block."""
        return self._by_block.get(block)

    def find(self, chain: BlockChain, tokens: TokenSequence, limit: int) -> int:
        """Bring `chain.nodes` up to date for the first `limit` blocks of its sequence. Returns how many are
        cached."""
        chain.trim()
        chain.extend(tokens, limit)
        while len(chain.nodes) < limit:
            node = self.find_next(chain)
            if node is None:
                break
            chain.nodes.append(node)
        return min(len(chain.nodes), limit)

    def find_next(self, chain: BlockChain) -> CachedBlock | None:
        """The cached block that equals the chain's first block past its nodes."""
        index = len(chain.nodes)
        parent_serial = chain.nodes[-1].serial if chain.nodes else 0
        content = chain.content(index)
        for node in self._index.get(chain.key(index), ()):
            if (
                node.parent_serial == parent_serial
                and node.content == content
                and node.namespace == chain.namespace
            ):
                return node
        return None

    def stage(self, chain: BlockChain, block: int) -> CachedBlock:
        """Make the chain's first block past its nodes findable in `block`, which the step in flight
        writes."""
        index = len(chain.nodes)
        key = chain.key(index)
        node = self._append(chain, block, key, chain.content(index))
        self._index.setdefault(key, []).append(node)
        return node

    def keep_tail(self, chain: BlockChain, block: int, content: TokenBlock) -> CachedBlock:
        """What a sequence has written to the block after its full ones, all of which are the chain's
        nodes."""
        node = self._append(chain, block, None, content)
        self.publish(node)
        return node

    def _append(
        self, chain: BlockChain, block: int, key: BlockKey | None, content: TokenBlock
    ) -> CachedBlock:
        parent = chain.nodes[-1] if chain.nodes else None
        assert block not in self._by_block, f"block {block} holds something else"
        node = CachedBlock(next(self._serials), parent, block, key, content, chain.namespace)
        if parent:
            parent.children[node.serial] = node
        self._by_block[block] = node
        return node

    def publish(self, node: CachedBlock) -> None:
        """The step that wrote it has succeeded."""
        node.staged = False
        self.beginnings.add(node)

    def forget(self, node: CachedBlock) -> list[CachedBlock]:
        """Drop a node and its descendants (their parent's serial is never seen again). Returns what was
        dropped."""
        if node.parent:
            del node.parent.children[node.serial]
        dropped = [node]
        for dead in dropped:  # grows while it is walked
            dropped += dead.children.values()
            self._drop(dead)
        return dropped

    def _drop(self, node: CachedBlock) -> None:
        node.alive = False
        node.parent = None
        node.children = {}
        del self._by_block[node.block]
        self.beginnings.remove(node)
        if node.key is None:
            return
        bucket = self._index[node.key]
        bucket.remove(node)
        if not bucket:
            del self._index[node.key]

    def check_integrity(self) -> None:
        """AssertionError unless index, tree and blocks tell the same story."""
        indexed = [node for bucket in self._index.values() for node in bucket]
        assert all(self._index.values()), "an empty bucket was left behind"
        nodes = {node.serial: node for node in self._by_block.values()}
        tails = {serial: node for serial, node in nodes.items() if node.key is None}
        assert {n.serial: n for n in indexed} | tails == nodes
        assert len(indexed) + len(tails) == len(nodes), "a node is indexed twice"
        assert not any(tail.children or tail.staged for tail in tails.values())
        self.beginnings.check_integrity({s: node for s, node in nodes.items() if not node.staged})
        for node in nodes.values():
            assert node.alive
            assert self._by_block[node.block] is node
            assert all(c.parent is node and c.parent_serial == node.serial for c in node.children.values())
            if node.parent:
                assert node.parent.alive
                assert node.parent.children[node.serial] is node
                assert node.parent.namespace == node.namespace
            else:
                assert node.parent_serial == 0, "a node has outlived its parent"
