"""The queue of sequences that hold nothing: new ones and preempted ones, oldest first."""

from bisect import bisect_left, insort
from collections.abc import Iterator

from engine.request import Sequence
from kvcache.encodings import EncodingId


def age(sequence: Sequence) -> tuple[int, int]:
    """Smaller is older. Choices of one request follow each other."""
    return sequence.request.arrival, sequence.choice


class Waiter:
    """A waiting sequence, and what it was last seen to wait for, so that it isn't matched again in vain.

    promise_epoch: the scheduler's epoch at which the next block was promised by a running sequence.
    media: the encoding that the first token to compute needs.
    """

    __slots__ = ("media", "promise_epoch", "sequence")

    def __init__(self, sequence: Sequence) -> None:
        self.sequence = sequence
        self.promise_epoch = -1
        self.media: EncodingId | None = None


class WaitingQueue:
    """Ordered by age. Holds thousands: nothing here looks at all of them but iteration."""

    def __init__(self) -> None:
        self._waiters: list[Waiter] = []

    def __len__(self) -> int:
        return len(self._waiters)

    def __iter__(self) -> Iterator[Waiter]:
        """Over a snapshot: the queue may change meanwhile."""
        return iter(self._waiters.copy())

    def add(self, sequence: Sequence, media: EncodingId | None = None) -> None:
        """media: what it is known to wait for."""
        waiter = Waiter(sequence)
        waiter.media = media
        insort(self._waiters, waiter, key=_waiter_age)

    def remove(self, sequence: Sequence) -> bool:
        """False when it isn't here."""
        index = self._index(sequence)
        if index is not None:
            del self._waiters[index]
        return index is not None

    def _index(self, sequence: Sequence) -> int | None:
        index = bisect_left(self._waiters, age(sequence), key=_waiter_age)
        found = index < len(self._waiters) and self._waiters[index].sequence is sequence
        return index if found else None


def _waiter_age(waiter: Waiter) -> tuple[int, int]:
    return age(waiter.sequence)
