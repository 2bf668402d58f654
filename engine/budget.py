"""What is left of a step while it is being built."""

from engine.limits import Limits
from engine.request import Sequence

MAX_MATCHES_A_STEP = 64
"""Waiting sequences matched against the cache in one step: bounds the time that a long queue takes from
it."""
MAX_EARLY_MATCHES_A_STEP = MAX_MATCHES_A_STEP // 2
"""Of these, for what may be prepared while its request waits: the others are for those that may begin."""


class StepBudget:
    """Rows of the step being built, and what is left of its tokens."""

    def __init__(self, limits: Limits) -> None:
        self.rows: list[tuple[Sequence, int, int]] = []
        self.num_tokens = limits.max_num_batched_tokens
        self.num_prefill_tokens = limits.max_num_batched_tokens
        self.num_matches = MAX_MATCHES_A_STEP
        self.num_early_matches = MAX_EARLY_MATCHES_A_STEP

    def take(self, sequence: Sequence, start: int, end: int) -> None:
        self.rows.append((sequence, start, end))
        self.num_tokens -= end - start
        self.num_prefill_tokens = min(self.num_prefill_tokens - (end - start), self.num_tokens)

    def chunk_end(self, sequence: Sequence, start: int) -> int:
        """As far as the budget goes, never into the middle of an indivisible range; `start` where nothing
        fits."""
        if self.num_prefill_tokens <= 0:
            return start
        end = min(len(sequence.tokens), start + self.num_prefill_tokens)
        for first, last in sequence.request.indivisible:
            if first <= start < last and end < last:
                return last if last - start <= self.num_tokens else start
            if first < end < last:
                return first
        return end
