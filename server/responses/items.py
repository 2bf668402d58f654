"""The items of an answer as they grow: a thought, a message, a function call. Each tells of itself in events.

Events are without `output_index` and `sequence_number`, which only the whole answer knows.
"""

import uuid
from collections.abc import Iterator
from typing import Any, Literal, Protocol

Event = dict[str, Any]
Status = Literal["in_progress", "completed", "incomplete"]


class Item(Protocol):
    """Protocol: `begin` once, then whatever it takes, then `end` once. Each returns the events to be sent."""

    def begin(self) -> Iterator[Event]: ...

    def end(self, status: Status) -> Iterator[Event]: ...

    def fields(self) -> dict[str, Any]:
        """The item as it stands."""
        ...


class TextItem:
    """What a message and a thought have in common: one part, whose text comes in deltas."""

    prefix: str
    stem: str
    """Of the names of its part's events."""

    def __init__(self) -> None:
        self._id = f"{self.prefix}_{uuid.uuid4().hex}"
        self._status: Status = "in_progress"
        self._begun = False
        self.text = ""

    def begin(self) -> Iterator[Event]:
        yield {"type": "response.output_item.added", "item": self.fields()}
        self._begun = True
        yield self._part_event("response.content_part.added", part=self.part())

    def add(self, delta: str) -> Iterator[Event]:
        self.text += delta
        yield self._part_event(f"{self.stem}.delta", delta=delta)

    def end(self, status: Status) -> Iterator[Event]:
        self._status = status
        yield self._part_event(f"{self.stem}.done", text=self.text)
        yield self._part_event("response.content_part.done", part=self.part())
        yield {"type": "response.output_item.done", "item": self.fields()}

    def part(self) -> dict[str, Any]:
        raise NotImplementedError

    def fields(self) -> dict[str, Any]:
        return {"id": self._id, "status": self._status, "content": [self.part()] if self._begun else []}

    def _part_event(self, event_type: str, **fields: Any) -> Event:
        return {"type": event_type, "item_id": self._id, "content_index": 0, **fields}


class MessageItem(TextItem):
    """The answer's text. Its log-probabilities are token reports in the form of chat."""

    prefix, stem = "msg", "response.output_text"

    def __init__(self) -> None:
        super().__init__()
        self.logprobs: list[dict[str, Any]] = []

    def add(self, delta: str, logprobs: list[dict[str, Any]] | None = None) -> Iterator[Event]:
        self.logprobs += logprobs or []
        for event in super().add(delta):
            yield {**event, "logprobs": logprobs or []}

    def end(self, status: Status) -> Iterator[Event]:
        for event in super().end(status):
            is_text = event["type"] == f"{self.stem}.done"
            yield {**event, "logprobs": self.logprobs} if is_text else event

    def part(self) -> dict[str, Any]:
        return {"type": "output_text", "text": self.text, "annotations": [], "logprobs": [*self.logprobs]}

    def fields(self) -> dict[str, Any]:
        return {"type": "message", "role": "assistant", **super().fields()}


class ReasoningItem(TextItem):
    """What the model thought, in its own words; there is no summary."""

    prefix, stem = "rs", "response.reasoning_text"

    def part(self) -> dict[str, Any]:
        return {"type": "reasoning_text", "text": self.text}

    def fields(self) -> dict[str, Any]:
        return {"type": "reasoning", "summary": [], **super().fields()}


class CallItem:
    """One function call, its arguments as JSON text."""

    def __init__(self, call_id: str, name: str, namespace: str | None = None) -> None:
        self._id = f"fc_{uuid.uuid4().hex}"
        self._namespace = {} if namespace is None else {"namespace": namespace}
        self._call_id = call_id
        self._name = name
        self._arguments = ""
        self._status: Status = "in_progress"

    def begin(self) -> Iterator[Event]:
        yield {"type": "response.output_item.added", "item": self.fields()}

    def add(self, delta: str) -> Iterator[Event]:
        self._arguments += delta
        yield {"type": "response.function_call_arguments.delta", "item_id": self._id, "delta": delta}

    def end(self, status: Status) -> Iterator[Event]:
        self._status = status
        yield {
            "type": "response.function_call_arguments.done",
            "item_id": self._id,
            "name": self._name,
            "arguments": self._arguments,
        }
        yield {"type": "response.output_item.done", "item": self.fields()}

    def fields(self) -> dict[str, Any]:
        return {
            "type": "function_call",
            "id": self._id,
            "call_id": self._call_id,
            "name": self._name,
            **self._namespace,
            "arguments": self._arguments,
            "status": self._status,
        }
