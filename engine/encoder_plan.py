"""Which encodings the tokens of one step read, and which of them must be made first.

Progress: rows are planned oldest first, and encodings are pinned only for the step that reads them. So the
first row of a step finds everything unpinned, its encoding fits by admission, and it advances as soon as its
tensors are here. A chunk is cut before the first span whose encoding doesn't fit beside those already pinned,
or can't be made yet.
"""

from collections.abc import Callable
from typing import NamedTuple

from engine.media_wants import MediaWants
from engine.request import Sequence
from engine.step import EncodeItem
from kvcache.encodings import EncodingCache, EncodingId
from models.processing.base import MediaLayout


class Reach(NamedTuple):
    """How far a chunk may go. missing: the encoding that cuts it, if its tensors aren't here yet."""

    end: int
    missing: EncodingId | None


class EncoderPlan:
    """Protocol, for each step: limit? -> (reach -> take)* -> planned -> the encoder runs -> failed* -> end.

    `reach` changes nothing; `take` pins what `reach` allowed, and reserves room for what is to be encoded.
    """

    def __init__(
        self,
        encodings: EncodingCache,
        wants: MediaWants,
        encoding_size_bytes: Callable[[MediaLayout], int],
        max_tokens: int,
    ) -> None:
        self._encodings = encodings
        self._wants = wants
        self._size_bytes = encoding_size_bytes
        self._max_tokens = self._max_tokens_now = max_tokens
        self._pinned: dict[EncodingId, int] = {}
        self._encode: list[EncodeItem] = []
        self._evicted: list[EncodingId] = []
        self._num_tokens = 0
        self.num_hits = 0
        self.num_runs = 0

    def limit(self, max_tokens: int) -> None:
        """In this step encode no more media tokens than these, beyond the first item."""
        self._max_tokens_now = min(self._max_tokens, max_tokens)

    def available(self, encoding: EncodingId) -> bool:
        """It can be read in a step: held, or its tensors are here."""
        return self._encodings.holds(encoding) or self._wants.arrived(encoding)

    def needed(self, sequence: Sequence, start: int) -> dict[EncodingId, MediaLayout]:
        """What the prompt's tokens from `start` on read, in order of use."""
        return self._read(sequence, start, sequence.num_prompt_tokens)

    def ask(self, sequence: Sequence, start: int, urgent: bool) -> None:
        """Ask for what tokens from `start` on read and nobody holds. urgent: the first of it must come
        now."""
        for encoding in self.needed(sequence, start):
            if not self.available(encoding):
                self.ask_for(sequence, encoding, urgent)
                urgent = False

    def ask_for(self, sequence: Sequence, encoding: EncodingId, urgent: bool) -> None:
        self._wants.want(sequence, encoding, sequence.request.media[encoding.key], urgent)

    def reach(self, sequence: Sequence, start: int, end: int) -> Reach:
        """The longest chunk [start, end') whose encodings all fit this step. An indivisible span is never
        split."""
        room = self._encodings.capacity_bytes - sum(self._pinned.values())
        num_tokens = self._num_tokens
        ours: set[EncodingId] = set()
        for span in sequence.tokens.spans_within(start, end):
            encoding = EncodingId(sequence.request.namespace, span.key)
            if encoding in self._pinned or encoding in ours:
                continue
            layout = sequence.request.media[span.key].layout
            room -= self._size_bytes(layout)
            if not self.available(encoding):
                return Reach(start + span.start, encoding)
            if not self._encodings.holds(encoding):
                if num_tokens and num_tokens + layout.num_tokens > self._max_tokens_now:
                    return Reach(start + span.start, None)
                num_tokens += layout.num_tokens
            if room < 0:
                return Reach(start + span.start, None)
            ours.add(encoding)
        return Reach(end, None)

    def take(self, sequence: Sequence, start: int, end: int) -> None:
        """Pin what [start, end) reads, having asked `reach`; plan to encode what isn't held."""
        missing: list[tuple[EncodingId, MediaLayout]] = []
        for encoding, layout in self._read(sequence, start, end).items():
            if encoding in self._pinned:
                continue
            self._pinned[encoding] = self._size_bytes(layout)
            if self._encodings.holds(encoding):
                self._encodings.pin(encoding)
                self.num_hits += 1
            else:
                missing.append((encoding, layout))
        for encoding, layout in missing:  # only now, since making room may evict whatever isn't pinned yet
            evicted = self._encodings.admit(encoding, self._pinned[encoding])
            if evicted is None:
                raise RuntimeError("an encoding that `reach` found room for does not fit")
            self._evicted.extend(evicted)
            item, arrays = self._wants.take(encoding)
            self._encode.append(EncodeItem(encoding, item.kind, item.layout, arrays))
            self._num_tokens += layout.num_tokens
            self.num_runs += 1

    def planned(self) -> tuple[list[EncodeItem], list[EncodingId]]:
        """What to encode in this step, and what to drop before."""
        return self._encode, self._evicted

    def failed(self, encoding: EncodingId) -> None:
        """The encoder could not make it: its room is given back."""
        self._encodings.discard(encoding)
        del self._pinned[encoding]

    def end(self) -> None:
        """The step is over, however it went: what it read may be evicted again."""
        for encoding in self._pinned:
            self._encodings.unpin(encoding)
        self._pinned.clear()
        self._encode, self._evicted, self._num_tokens = [], [], 0
        self._max_tokens_now = self._max_tokens

    def _read(self, sequence: Sequence, start: int, end: int) -> dict[EncodingId, MediaLayout]:
        request = sequence.request
        return {
            EncodingId(request.namespace, span.key): request.media[span.key].layout
            for span in sequence.tokens.spans_within(start, end)
        }
