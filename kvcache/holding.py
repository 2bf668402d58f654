"""What one running sequence holds of the cache, and what it does in the step in flight. Plain data."""

from array import array
from dataclasses import dataclass, field

from kvcache.chain import BlockChain, CachedBlock
from kvcache.sequence import TokenSequence


@dataclass(slots=True, eq=False)
class Holding:
    """One owner's side of the books.

    chain.nodes[i] is the cached block equal to block i of the sequence; its block is table[i], except for
    duplicates. staged: nodes that this step writes. duplicates: indices of blocks that this step writes
    although an equal one is held; that one is referenced until the step ends and then takes the own one's
    place in the table. borrowed: matched nodes that another owner stages in this step. orphaned: one of these
    has come to nothing. num_written: tokens that the table holds for certain: those of the blocks that were
    matched, then of every step that succeeded. num_staged: those it holds once the step in flight succeeds.
    """

    tokens: TokenSequence
    chain: BlockChain
    table: "array[int]"  # of int32, which a step copies as they lie
    borrowed: list[CachedBlock]
    num_written: int
    num_staged: int
    staged: list[CachedBlock] = field(default_factory=list)
    duplicates: dict[int, CachedBlock] = field(default_factory=dict)
    orphaned: bool = False
