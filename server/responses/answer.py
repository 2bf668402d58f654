"""An answer in the making: pieces in, items and their events out.

Whole answers are made of the same items as streams, so the two can't differ. Knows no request and no HTTP.
"""

from collections.abc import Iterator
from typing import Any

from server.choice import Piece
from server.logprobs import TokenReport
from server.responses.items import CallItem, Event, Item, MessageItem, ReasoningItem, Status
from server.responses.namespaces import Namespaces
from server.tools.parser import ToolDelta


class Answer:
    """Feed it every piece; after the last one `status` tells how it ended. One item grows at a time."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self.status: Status = "in_progress"
        self._items: list[Item] = []
        self._growing: Item | None = None
        self._tokens: list[TokenReport] = []

    def output(self) -> list[dict[str, Any]]:
        return [item.fields() for item in self._items]

    def feed(self, piece: Piece) -> Iterator[Event]:
        """A call under way goes on before new text, and that comes before new calls: so it was written."""
        self._tokens += piece.tokens
        if piece.reasoning:
            yield from self._reason(piece.reasoning)
        num_continued = _num_continued(piece.calls)
        for call in piece.calls[:num_continued]:
            yield from self._call(call)
        if piece.content:
            yield from self._say(piece.content)
        elif piece.reasoning or piece.calls:
            self._tokens = []
        for call in piece.calls[num_continued:]:
            yield from self._call(call)
        if piece.finish_reason:
            yield from self._finish(piece.finish_reason)

    def break_off(self) -> None:
        """Nothing more will come: whatever was growing stays as it is."""
        if self._growing is not None:
            for _ in self._growing.end("incomplete"):
                pass
        self.status = "incomplete"

    def _reason(self, text: str) -> Iterator[Event]:
        if not isinstance(self._growing, ReasoningItem):
            yield from self._begin(ReasoningItem())
        if isinstance(self._growing, ReasoningItem):
            yield from self._indexed(self._growing.add(text))

    def _say(self, text: str) -> Iterator[Event]:
        if not isinstance(self._growing, MessageItem):
            yield from self._begin(MessageItem())
        if isinstance(self._growing, MessageItem):
            logprobs, self._tokens = [token.chat() for token in _tail(self._tokens, len(text))], []
            yield from self._indexed(self._growing.add(text, logprobs))

    def _call(self, call: ToolDelta) -> Iterator[Event]:
        if call.id is not None:
            namespace, name = self._namespaces.parts(call.name or "")
            yield from self._begin(CallItem(call.id, name, namespace))
        if isinstance(self._growing, CallItem) and call.arguments:
            yield from self._indexed(self._growing.add(call.arguments))

    def _finish(self, reason: str) -> Iterator[Event]:
        self.status = "incomplete" if reason == "length" else "completed"
        if not any(isinstance(item, MessageItem | CallItem) for item in self._items) and reason != "length":
            yield from self._begin(MessageItem())
        if isinstance(self._growing, MessageItem):
            self._growing.logprobs += [token.chat() for token in self._tokens]
        yield from self._end(self.status)

    def _begin(self, item: Item) -> Iterator[Event]:
        yield from self._end("completed")
        self._items.append(item)
        self._growing = item
        yield from self._indexed(item.begin())

    def _end(self, status: Status) -> Iterator[Event]:
        if self._growing is not None:
            yield from self._indexed(self._growing.end(status))
        self._growing = None

    def _indexed(self, events: Iterator[Event]) -> Iterator[Event]:
        for event in events:
            yield {**event, "output_index": len(self._items) - 1}


def _tail(tokens: list[TokenReport], num_chars: int) -> list[TokenReport]:
    """The tokens of the last characters; before them may be a tag's, which is no text of the answer."""
    end = tokens[-1].start + len(tokens[-1].text()) if tokens else 0
    return [token for token in tokens if token.start >= end - num_chars]


def _num_continued(calls: list[ToolDelta]) -> int:
    """Deltas at the front that belong to a call of an earlier piece."""
    return next((index for index, call in enumerate(calls) if call.id is not None), len(calls))
