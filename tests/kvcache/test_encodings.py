import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kvcache.encodings import EncodingCache, EncodingId
from kvcache.keys import MediaKey

A, B, C, D = (EncodingId(b"", MediaKey(bytes([i]) * 32)) for i in range(4))


def test_evicts_the_oldest_unpinned_and_no_more_than_it_must():
    cache = EncodingCache(10)
    for encoding, size in ((A, 4), (B, 3), (C, 3)):
        assert cache.admit(encoding, size) == []
        cache.unpin(encoding)
    cache.pin(A)
    cache.unpin(A)  # used again: B is the oldest now
    assert cache.admit(D, 5) == [B, C]
    assert (cache.holds(A), cache.holds(B), cache.used_bytes) == (True, False, 9)


def test_what_is_pinned_stays():
    cache = EncodingCache(10)
    cache.admit(A, 6)
    assert cache.admit(B, 5) is None
    assert (cache.holds(A), cache.holds(B), cache.used_bytes) == (True, False, 6)
    cache.pin(A)
    cache.unpin(A)
    assert cache.admit(B, 5) is None
    cache.unpin(A)
    assert cache.admit(B, 5) == [A]


def test_larger_than_the_budget_never_fits_and_evicts_nothing():
    cache = EncodingCache(10)
    cache.admit(A, 6)
    cache.unpin(A)
    assert cache.admit(B, 11) is None
    assert cache.holds(A)


def test_a_failed_reservation_leaves_nothing():
    cache = EncodingCache(10)
    cache.admit(A, 10)
    cache.discard(A)
    cache.discard(A)
    cache.unpin(A)
    assert (cache.holds(A), cache.used_bytes) == (False, 0)
    assert cache.admit(B, 10) == []


def test_namespaces_do_not_see_each_other():
    cache = EncodingCache(10)
    cache.admit(A, 1)
    assert not cache.holds(A._replace(namespace=b"n"))


def test_misuse_is_refused():
    cache = EncodingCache(10)
    cache.admit(A, 1)
    with pytest.raises(ValueError, match="held already"):
        cache.admit(A, 1)
    with pytest.raises(ValueError, match="bytes"):
        cache.admit(B, -1)
    cache.unpin(A)
    with pytest.raises(ValueError, match="not pinned"):
        cache.unpin(A)
    with pytest.raises(KeyError):
        cache.pin(B)
    with pytest.raises(ValueError, match="budget"):
        EncodingCache(-1)


class EncodingMachine(RuleBasedStateMachine):
    """Against a list of [encoding, size, pins], oldest first."""

    @initialize(capacity=st.integers(0, 12))
    def start(self, capacity):
        self.cache = EncodingCache(capacity)
        self.held: list[list] = []

    def entry(self, encoding):
        return next((entry for entry in self.held if entry[0] == encoding), None)

    @rule(encoding=st.sampled_from([A, B, C, D]), size=st.integers(0, 7))
    def admit_or_pin(self, encoding, size):
        entry = self.entry(encoding)
        assert self.cache.holds(encoding) == bool(entry)
        if entry:
            self.cache.pin(encoding)
            self.held.remove(entry)
            self.held.append([encoding, entry[1], entry[2] + 1])
            return
        evicted = self.cache.admit(encoding, size)
        pinned = sum(entry[1] for entry in self.held if entry[2])
        assert (evicted is None) == (pinned + size > self.cache.capacity_bytes)
        if evicted is not None:
            idle = [entry[0] for entry in self.held if not entry[2]]
            assert evicted == idle[: len(evicted)]
            self.held = [entry for entry in self.held if entry[0] not in evicted]
            used = sum(entry[1] for entry in self.held)
            assert used + size <= self.cache.capacity_bytes
            self.held.append([encoding, size, 1])

    @rule(encoding=st.sampled_from([A, B, C, D]))
    def unpin(self, encoding):
        entry = self.entry(encoding)
        if entry is None or entry[2]:
            self.cache.unpin(encoding)
        if entry and entry[2]:
            entry[2] -= 1

    @rule(encoding=st.sampled_from([A, B, C, D]))
    def discard(self, encoding):
        self.cache.discard(encoding)
        self.held = [entry for entry in self.held if entry[0] != encoding]

    @invariant()
    def agrees(self):
        if hasattr(self, "cache"):
            self.cache.check_integrity()
            assert self.cache.used_bytes == sum(entry[1] for entry in self.held)
            assert all(self.cache.holds(e) == bool(self.entry(e)) for e in (A, B, C, D))


TestEncodingCache = EncodingMachine.TestCase
TestEncodingCache.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, derandomize=True
)
