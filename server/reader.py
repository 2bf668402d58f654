"""What an answer's text says: thought, content and tool calls, told apart while the text comes.

By tags that many models share, or by a checkpoint's own response template (see
`server.response_template.reader`); calls or structured text by how they begin.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from server.reasoning import ReasoningSplitter
from server.tools.parser import ToolCallParser, ToolDelta


class Read(NamedTuple):
    """What a piece of text adds."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[ToolDelta, ...] = ()


class Reader(Protocol):
    """Protocol: `push` text as it comes, then `finish` once. What doesn't parse is given back as content."""

    def push(self, text: str) -> Read: ...

    def finish(self) -> Read: ...

    @property
    def inside_thought(self) -> bool: ...

    @property
    def num_calls(self) -> int:
        """Calls begun."""
        ...

    @property
    def num_complete(self) -> int: ...


class TagReader:
    """Thoughts between `<think>` tags at the beginning, calls between `<tool_call>` tags, each only where it
    is asked for."""

    def __init__(
        self, thoughts: bool = False, begins_inside_thought: bool = False, calls: bool = False
    ) -> None:
        self._thoughts = ReasoningSplitter(begins_inside_thought) if thoughts else None
        self._calls = ToolCallParser() if calls else None

    def push(self, text: str) -> Read:
        reasoning = ""
        if self._thoughts is not None:
            reasoning, text = self._thoughts.push(text)
        if self._calls is None:
            return Read(text, reasoning)
        content, calls = self._calls.push(text)
        return Read(content, reasoning, tuple(calls))

    def finish(self) -> Read:
        reasoning, text = self._thoughts.finish() if self._thoughts is not None else ("", "")
        if self._calls is None:
            return Read(text, reasoning)
        before, last = self._calls.push(text), self._calls.finish()
        return Read(before.content + last.content, reasoning, (*before.calls, *last.calls))

    @property
    def inside_thought(self) -> bool:
        return self._thoughts is not None and self._thoughts.inside

    @property
    def num_calls(self) -> int:
        return self._calls.num_calls if self._calls is not None else 0

    @property
    def num_complete(self) -> int:
        return self._calls.num_complete if self._calls is not None else 0


class CallsOrAnswer:
    """For an answer that a grammar makes either calls or structured text: which of them, its beginning says.
    Structured text is not looked through for marks: its strings may hold them."""

    def __init__(self, opening: str, make_call_reader: Callable[[], Reader]) -> None:
        self._opening = opening
        self._make_call_reader = make_call_reader
        self._held = ""
        self._reader: Reader | None = None

    def push(self, text: str) -> Read:
        if self._reader is None:
            self._held += text
            begun = self._held[: len(self._opening)]
            if begun != self._opening and self._opening.startswith(begun):
                return Read()
            self._reader = self._make_call_reader() if begun == self._opening else TagReader()
            text, self._held = self._held, ""
        return self._reader.push(text)

    def finish(self) -> Read:
        return Read(self._held) if self._reader is None else self._reader.finish()

    @property
    def inside_thought(self) -> bool:
        return False

    @property
    def num_calls(self) -> int:
        return self._reader.num_calls if self._reader is not None else 0

    @property
    def num_complete(self) -> int:
        return self._reader.num_complete if self._reader is not None else 0
