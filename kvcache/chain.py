"""One sequence as a chain of blocks, and the cached blocks found along it. Knows neither owners nor
counts."""

from kvcache.block_keys import BlockKey, block_key
from kvcache.sequence import TokenBlock, TokenSequence


class CachedBlock:
    """A block that can be found: a node in the tree of prefixes.

    serial: never reused, unlike block numbers and (when they collide) keys, so it is what a child knows its
    parent by. key: None for a tail, the last block of a sequence that ended before it was full: a leaf, found
    by what it begins with. staged: written by the step in flight, which may fail yet. alive: False once
    forgotten, as all its descendants are.
    """

    __slots__ = (
        "alive",
        "block",
        "children",
        "content",
        "key",
        "namespace",
        "parent",
        "parent_serial",
        "serial",
        "staged",
    )

    def __init__(
        self,
        serial: int,
        parent: "CachedBlock | None",
        block: int,
        key: BlockKey | None,
        content: TokenBlock,
        namespace: bytes,
    ) -> None:
        self.serial = serial
        self.parent = parent
        self.parent_serial = parent.serial if parent else 0
        self.block = block
        self.key = key
        self.content = content
        self.namespace = namespace
        self.children: dict[int, CachedBlock] = {}
        self.staged = True
        self.alive = True


class BlockChain:
    """The full blocks of one sequence as one namespace sees them, cut and keyed once however often they are
    asked for.

    nodes: cached blocks known to equal the sequence's first blocks. The last ones may have been forgotten
    since; where one is alive, so are all before it.
    """

    __slots__ = ("_blocks", "_hash_bits", "block_size", "namespace", "nodes")

    def __init__(self, namespace: bytes, block_size: int, hash_bits: int) -> None:
        self.namespace = namespace
        self.nodes: list[CachedBlock] = []
        self.block_size = block_size
        self._hash_bits = hash_bits
        self._blocks: list[tuple[BlockKey, TokenBlock]] = []

    def fork(self, num_nodes: int) -> "BlockChain":
        """A chain of the same sequence whose nodes, the first `num_nodes`, are its own; the keys are
        shared."""
        chain = BlockChain(self.namespace, self.block_size, self._hash_bits)
        chain._blocks = self._blocks
        chain.nodes = self.nodes[:num_nodes]
        return chain

    def extend(self, tokens: TokenSequence, num_blocks: int) -> None:
        """Cut and key the first `num_blocks` blocks of `tokens`, always the same sequence. IndexError if one
        is not full."""
        for index in range(len(self._blocks), num_blocks):
            content = tokens.block(index, self.block_size)
            parent = self.key(index - 1) if index else None
            key = block_key(parent, content.ids, content.spans, self.namespace, self._hash_bits)
            self._blocks.append((key, content))

    def key(self, index: int) -> BlockKey:
        return self._blocks[index][0]

    def content(self, index: int) -> TokenBlock:
        return self._blocks[index][1]

    def trim(self) -> None:
        """Let go of the nodes that have been forgotten."""
        while self.nodes and not self.nodes[-1].alive:
            self.nodes.pop()
