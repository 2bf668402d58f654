"""How much of a prompt need not be computed, to the token. Knows neither owners nor counts."""

from typing import NamedTuple

from kvcache.chain import BlockChain, CachedBlock
from kvcache.prefix import PrefixCache
from kvcache.sequence import TokenSequence

Ranges = tuple[tuple[int, int], ...]


class PrefixMatch(NamedTuple):
    """How much of a prompt need not be computed.

    num_tokens: at most prompt length - 1, never inside an indivisible range. blocks: the held blocks that
    cover it, but for what is past the last of them. donor: a block that begins with that rest, to be copied.
    awaits_promise: a running sequence has promised the blocks that come next, and with them less would be
    left to compute.
    """

    num_tokens: int
    blocks: tuple[int, ...]
    awaits_promise: bool
    donor: CachedBlock | None = None


class BlockCopy(NamedTuple):
    """The whole of one block into another, before anything is computed in the step."""

    source: int
    target: int


class Reach(NamedTuple):
    """Tokens that need not be computed, and the donor of those past the last full block."""

    num_tokens: int
    donor: CachedBlock | None


def reach(
    prefix: PrefixCache, chain: BlockChain, tokens: TokenSequence, num_found: int, indivisible: Ranges
) -> Reach:
    """The longest prefix of `tokens` that can be reused, given that its first `num_found` blocks are
    `chain.nodes`.

    Nothing is copied from a block that the step in flight writes.
    """
    size = chain.block_size
    found_end = num_found * size
    parent = chain.nodes[num_found - 1] if num_found else None
    content = tokens.piece(found_end, min(found_end + size, len(tokens) - 1))
    after = prefix.beginnings.longest(parent, chain.namespace, content)
    end = clamped(found_end + after.num_tokens if after else found_end, indivisible)
    while rest := end % size:
        donor = after.node if after and end > found_end else chain.nodes[end // size]
        if not donor.staged:
            return Reach(end, donor)
        end = clamped(end - rest, indivisible)
    return Reach(end, None)


def clamped(end: int, indivisible: Ranges) -> int:
    """The largest end, at most `end`, that is not inside an indivisible range."""
    while inside := [start for start, stop in indivisible if start < end < stop]:
        end = min(inside)
    return end
