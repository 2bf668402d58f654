"""Reads tool calls out of a model's text as it comes.

The format is the one that Hermes and Qwen models write, and the documented fallback for all others:

    <tool_call>
    {"name": "...", "arguments": {...}}
    </tool_call>

Arguments are passed on as they come, once the name is known. What does not parse is given back as text.
"""

import json
import re
import uuid
from typing import Any, NamedTuple, NoReturn

from server.markers import MAX_HELD, unfinished
from server.tools.form import TAGGED
from server.tools.json_scan import ObjectScanner

OPEN, CLOSE = TAGGED.opening, TAGGED.closing
_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)')


class ToolDelta(NamedTuple):
    """A piece of one call. id and name only in the first piece of a call."""

    number: int
    arguments: str
    id: str | None = None
    name: str | None = None


class Parsed(NamedTuple):
    content: str
    calls: list[ToolDelta]


class ToolCallParser:
    """States: text -> head (name not yet known) -> arguments -> tail -> text."""

    def __init__(self) -> None:
        self._held = ""
        self._num_searched = 0
        """Characters of a call held back that were searched already."""
        self._state = "text"
        self._scanner = ObjectScanner()
        self.num_calls = 0
        """Calls begun."""
        self.num_complete = 0

    def push(self, text: str) -> Parsed:
        self._held += text
        content, calls = "", []
        while True:
            before = (self._state, len(self._held))
            match self._state:
                case "text":
                    content += self._text()
                case "head":
                    content += self._head(calls)
                case "arguments":
                    self._arguments(calls)
                case "tail":
                    self._tail()
            if (self._state, len(self._held)) == before:
                return Parsed(content, calls)

    def finish(self) -> Parsed:
        """The answer is over: what is held is text, unless it is a whole call that lacks only its closing
        tag."""
        held, self._held = self._held, ""
        calls: list[ToolDelta] = []
        if self._state == "head":
            return Parsed("" if self._whole_call(held, calls) else OPEN + held, calls)
        if self._state == "text" and not (self.num_calls and not held.strip()):
            return Parsed(held, calls)
        return Parsed("", calls)

    def _text(self) -> str:
        """Blank text beside a call belongs to the format, not to the answer."""
        if self.num_calls:
            self._held = self._held.lstrip()
        text, opening, rest = self._held.partition(OPEN)
        if opening:
            self._state, self._held, self._num_searched = "head", rest, 0
            return text.rstrip()
        end = unfinished(text, OPEN)
        end = max(len(text[:end].rstrip()), end - MAX_HELD)
        self._held = text[end:]
        return text[:end]

    def _head(self, calls: list[ToolDelta]) -> str:
        """A head longer than MAX_HELD is not looked for: such a call is told once it is whole."""
        head = _HEAD.match(self._held, 0, MAX_HELD) if self._num_searched < MAX_HELD else None
        if head is not None and (name := _json(head[1])) is not None and _is_sound(name):
            calls.append(self._begin(name, ""))
            self._state, self._held, self._scanner = "arguments", self._held[head.end() :], ObjectScanner()
            return ""
        end = self._held.find(CLOSE, max(0, self._num_searched - len(CLOSE)))
        self._num_searched = len(self._held)
        if end < 0:
            return ""
        body, self._held, self._state = self._held[:end], self._held[end + len(CLOSE) :], "text"
        return "" if self._whole_call(body, calls) else OPEN + body + CLOSE

    def _arguments(self, calls: list[ToolDelta]) -> None:
        end = self._scanner.scan(self._held)
        if end:
            calls.append(ToolDelta(self.num_calls - 1, self._held[:end]))
        self._held = self._held[end:]
        if self._scanner.complete:
            self._state = "tail"
            self.num_complete += 1

    def _tail(self) -> None:
        _, closing, rest = self._held.partition(CLOSE)
        if closing:
            self._state, self._held = "text", rest
        else:
            self._held = self._held[unfinished(self._held, CLOSE) :]

    def _whole_call(self, body: str, calls: list[ToolDelta]) -> bool:
        """A call whose keys came in another order, or whose arguments are a string or missing."""
        call = _json(body)
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            return False
        arguments = call.get("arguments", call.get("parameters", {}))
        try:
            name, arguments = sound(call["name"]), written(arguments)
        except (ValueError, RecursionError):  # no server could write it out again
            return False
        calls.append(self._begin(name, arguments))
        self.num_complete += 1
        return True

    def _begin(self, name: str, arguments: str) -> ToolDelta:
        self.num_calls += 1
        return new_call(self.num_calls - 1, name, arguments)


def new_call(number: int, name: str, arguments: str) -> ToolDelta:
    """The first piece of a call, with an id of its own."""
    return ToolDelta(number, arguments, f"call_{uuid.uuid4().hex[:24]}", name)


def written(value: Any) -> str:
    """A string as it is, anything else as JSON. ValueError for what neither JSON nor UTF-8 can hold."""
    return sound(value) if isinstance(value, str) else json_text(value)


def sound(text: str) -> str:
    """The same. UnicodeEncodeError, a ValueError, for half of a surrogate pair, which an escape may have
    written."""
    text.encode()
    return text


def json_text(value: Any) -> str:
    """UTF-8 can't hold half of a surrogate pair, which a model may have written as an escape: it stays one.
    ValueError for what JSON can't hold."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text if text.isascii() or _is_sound(text) else json.dumps(value)


def _is_sound(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _json(text: str) -> Any:
    """None for what is no JSON, or whose numbers are none of JSON's."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)
