"""Which encoder outputs are held, under a byte budget, pinned while in use. Bookkeeping only: `pages` owns the tensors."""

from typing import NamedTuple, Protocol

from kvcache.keys import MediaKey


class EncodingId(NamedTuple):
    """An encoding is found by who may see it and what it encodes."""

    namespace: bytes
    key: MediaKey


class EncodingCache(Protocol):  # CONTRACT: to be replaced by the class of this name
    """Protocol: holds? -> pin; or admit (evicts unpinned, oldest first) -> fill the tensor -> it is held and pinned; unpin after the step."""

    capacity_bytes: int
    used_bytes: int

    def holds(self, encoding: EncodingId) -> bool: ...

    def admit(self, encoding: EncodingId, size_bytes: int) -> list[EncodingId] | None:
        """Reserve room for a new encoding, pinned once. Returns what was evicted; None, nothing changed, when it doesn't fit now."""
        ...

    def discard(self, encoding: EncodingId) -> None:
        """Forget a reservation or an entry whose computation failed."""
        ...

    def pin(self, encoding: EncodingId) -> None:
        """In use by this step: not evictable. Moves it to the recent end. KeyError when not held."""
        ...

    def unpin(self, encoding: EncodingId) -> None: ...

    def check_integrity(self) -> None: ...
