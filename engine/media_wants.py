"""Who wants which prepared tensors: one flight for each (namespace, key), and the tensors from arrival to
encoding.

    want -> MediaNeeded to the first who wants it (the leader) -> arrived -> take (to encode)

A leader that ends or can't prepare its copy hands over to the next who wants the same; nobody else fails with
it. Knows nothing of spans, blocks or the encoding cache: a want is for what isn't encoded now.
"""

from collections.abc import Callable, Iterable

from engine.messages import MediaItem, MediaNeeded
from engine.request import Sequence
from kvcache.encodings import EncodingId
from models.processing.base import PreparedMedia


class _Want:
    """wanting: in order of asking. leader: the request asked, until it answers or ends. arrays: held once
    arrived."""

    __slots__ = ("arrays", "bytes", "item", "leader", "wanting")

    def __init__(self, item: MediaItem) -> None:
        self.item = item
        self.wanting: dict[Sequence, None] = {}
        self.leader: str | None = None
        self.arrays: PreparedMedia | None = None
        self.bytes = 0


class MediaWants:
    """Tensors that were asked for or are held count against budget_bytes; what is still to come, by an
    estimate.

    ask: sends MediaNeeded. Only `urgent` wants may exceed the budget: they are few (what runs, and the first
    in line), and without them a budget full of tensors for requests that can't run yet would stop those that
    can.
    """

    def __init__(self, budget_bytes: int, bytes_per_token: int, ask: Callable[[MediaNeeded], None]) -> None:
        self._budget_bytes = budget_bytes
        self._bytes_per_token = bytes_per_token
        self._ask = ask
        self._wants: dict[EncodingId, _Want] = {}
        self._by_sequence: dict[Sequence, set[EncodingId]] = {}
        self._used_bytes = 0
        self.num_requested = 0

    def __len__(self) -> int:
        return len(self._wants)

    @property
    def has_room(self) -> bool:
        return self._used_bytes < self._budget_bytes

    def arrived(self, encoding: EncodingId) -> bool:
        """Its tensors are here."""
        want = self._wants.get(encoding)
        return want is not None and want.arrays is not None

    def want(self, sequence: Sequence, encoding: EncodingId, item: MediaItem, urgent: bool) -> None:
        """`sequence` needs the tensors. Nothing is recorded if that must wait for room in the budget: ask
        again."""
        want = self._wants.get(encoding)
        if want is None:
            if not (urgent or self.has_room):
                return
            want = self._wants[encoding] = _Want(item)
            self._account(want, item.layout.num_tokens * self._bytes_per_token)
        want.wanting[sequence] = None
        self._by_sequence.setdefault(sequence, set()).add(encoding)
        self._send(encoding, want)

    def put(self, encoding: EncodingId, arrays: PreparedMedia) -> None:
        """The tensors have come. They are dropped when nobody wants them any more."""
        want = self._wants.get(encoding)
        if want is None:
            return
        want.leader = None
        if not want.wanting:
            self._drop(encoding)
            return
        want.arrays = arrays
        size = sum(array.nbytes for array in arrays.values())
        self._bytes_per_token = max(1, size // want.item.layout.num_tokens)
        self._account(want, size)

    def take(self, encoding: EncodingId) -> tuple[MediaItem, PreparedMedia]:
        """Hand the tensors over to be encoded; the want is met for all. KeyError unless they have arrived."""
        want = self._wants[encoding]
        if want.arrays is None:
            raise KeyError(encoding)
        self._drop(encoding)
        return want.item, want.arrays

    def unavailable(self, encoding: EncodingId, request_id: str) -> bool:
        """The leader can't prepare its copy. True if it still wanted it, and so must fail."""
        want = self._wants.get(encoding)
        if want is None or want.leader != request_id:
            return False
        needed = any(sequence.request.request_id == request_id for sequence in want.wanting)
        for sequence in [s for s in want.wanting if s.request.request_id == request_id]:
            self._leave(sequence, encoding)
        self._hand_over(encoding, want)
        return needed

    def retain(self, sequence: Sequence, needed: Iterable[EncodingId]) -> None:
        """`sequence` no longer needs anything but these (the rest was found in the prefix cache)."""
        for encoding in self._by_sequence.get(sequence, set()) - set(needed):
            want = self._leave(sequence, encoding)
            if not want.wanting and want.leader is None:
                self._drop(encoding)

    def ended(self, request_id: str) -> None:
        """The request is gone: flights that it led go to the next who wants the same."""
        for encoding, want in list(self._wants.items()):
            if want.leader == request_id:
                self._hand_over(encoding, want)

    def check_integrity(self) -> None:
        """Raise AssertionError unless sums and both tables agree, and every want is in flight or has
        arrived."""
        assert self._used_bytes == sum(want.bytes for want in self._wants.values())
        for encoding, want in self._wants.items():
            assert (want.leader is None) == (want.arrays is not None), "a want neither in flight nor arrived"
            assert want.wanting or want.leader is not None, "tensors that nobody wants"
            assert all(encoding in self._by_sequence[sequence] for sequence in want.wanting)
        for sequence, encodings in self._by_sequence.items():
            assert encodings
            assert all(sequence in self._wants[encoding].wanting for encoding in encodings)

    def _send(self, encoding: EncodingId, want: _Want) -> None:
        if want.leader is None and want.arrays is None:
            want.leader = next(iter(want.wanting)).request.request_id
            self.num_requested += 1
            self._ask(MediaNeeded(want.leader, encoding.namespace, encoding.key))

    def _hand_over(self, encoding: EncodingId, want: _Want) -> None:
        want.leader = None
        if want.wanting:
            self._send(encoding, want)
        else:
            self._drop(encoding)

    def _leave(self, sequence: Sequence, encoding: EncodingId) -> _Want:
        want = self._wants[encoding]
        want.wanting.pop(sequence, None)
        encodings = self._by_sequence[sequence]
        encodings.discard(encoding)
        if not encodings:
            del self._by_sequence[sequence]
        return want

    def _drop(self, encoding: EncodingId) -> None:
        want = self._wants[encoding]
        for sequence in list(want.wanting):
            self._leave(sequence, encoding)
        self._account(want, 0)
        del self._wants[encoding]

    def _account(self, want: _Want, size_bytes: int) -> None:
        self._used_bytes += size_bytes - want.bytes
        want.bytes = size_bytes
