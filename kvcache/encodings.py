"""Which encoder outputs are held, under a byte budget, pinned while in use. Bookkeeping only: `pages` owns
the tensors."""

from dataclasses import dataclass
from typing import NamedTuple

from kvcache.keys import MediaKey


class EncodingId(NamedTuple):
    """An encoding is found by who may see it and what it encodes."""

    namespace: bytes
    key: MediaKey


@dataclass(slots=True)
class _Entry:
    size_bytes: int
    num_pins: int


class EncodingCache:
    """Protocol: holds? -> pin; or admit (evicts unpinned, oldest first) -> fill the tensor -> it is held and
    pinned; unpin after the step.

    capacity_bytes: the budget. used_bytes: the sizes of all that is held, pinned or not.
    """

    def __init__(self, capacity_bytes: int) -> None:
        if capacity_bytes < 0:
            raise ValueError(f"a budget of {capacity_bytes} bytes")
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self._entries: dict[EncodingId, _Entry] = {}  # oldest first

    def holds(self, encoding: EncodingId) -> bool:
        return encoding in self._entries

    def admit(self, encoding: EncodingId, size_bytes: int) -> list[EncodingId] | None:
        """Reserve room for a new encoding, pinned once. Returns what was evicted; None, nothing changed, when
        it doesn't fit now.

        ValueError when it is held already.
        """
        if encoding in self._entries:
            raise ValueError("the encoding is held already: pin it")
        if size_bytes < 0:
            raise ValueError(f"an encoding of {size_bytes} bytes")
        victims = self._victims(size_bytes)
        if victims is not None:
            for victim in victims:
                self.discard(victim)
            self._entries[encoding] = _Entry(size_bytes, num_pins=1)
            self.used_bytes += size_bytes
        return victims

    def discard(self, encoding: EncodingId) -> None:
        """Forget a reservation or an entry whose computation failed, pins and all. Not held: no-op."""
        entry = self._entries.pop(encoding, None)
        if entry is not None:
            self.used_bytes -= entry.size_bytes

    def pin(self, encoding: EncodingId) -> None:
        """In use by this step: not evictable. Moves it to the recent end. KeyError when not held."""
        entry = self._entries.pop(encoding)
        entry.num_pins += 1
        self._entries[encoding] = entry

    def unpin(self, encoding: EncodingId) -> None:
        """Once for each admit and pin. Not held (discarded since): no-op. ValueError when it is not
        pinned."""
        entry = self._entries.get(encoding)
        if entry is None:
            return
        if not entry.num_pins:
            raise ValueError("the encoding is not pinned")
        entry.num_pins -= 1

    def check_integrity(self) -> None:
        """AssertionError unless the sizes add up and fit the budget."""
        assert self.used_bytes == sum(entry.size_bytes for entry in self._entries.values()), (
            "sizes don't add up"
        )
        assert 0 <= self.used_bytes <= self.capacity_bytes, "over budget"
        assert all(entry.num_pins >= 0 for entry in self._entries.values()), "unpinned too often"

    def _victims(self, size_bytes: int) -> list[EncodingId] | None:
        """The oldest unpinned encodings, as few as make room for `size_bytes`; None when all of them do
        not."""
        lacking = self.used_bytes + size_bytes - self.capacity_bytes
        victims: list[EncodingId] = []
        for encoding, entry in self._entries.items():
            if lacking <= 0:
                break
            if not entry.num_pins:
                victims.append(encoding)
                lacking -= entry.size_bytes
        return victims if lacking <= 0 else None
