"""An answer read by its checkpoint's response template, as it comes.

Thoughts and content are told as they come, each call once it is whole. Text that the template can't make
sense of is given back as content; so is everything from the point on where the template takes too long. Where
a field of text comes again, its texts are strung together: a stream can't take back what it has told.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from server.markers import MAX_HELD
from server.reader import Read
from server.response_template.casts import cast_arguments
from server.response_template.regions import Event, ReadingFailed, Region, Regions
from server.response_template.search_time import SearchTime
from server.response_template.template import Field, ResponseTemplate
from server.tools.parser import ToolDelta, new_call, sound, written

logger = logging.getLogger("intarsia")

CALLS, CONTENT = "tool_calls", "content"
THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Names that templates give to what a model thinks."""


class TemplateReader:
    """prompt: the text that the answer follows, whose end may already be part of it. functions: those that
    may be called, as OpenAI's function objects; None leaves calls as text. time: as patterns
    may take, here and in what it is shared with."""

    def __init__(
        self,
        template: ResponseTemplate,
        prompt: str,
        functions: Sequence[Mapping[str, Any]] | None,
        time: SearchTime | None = None,
    ) -> None:
        self._time = time or SearchTime()
        self._regions = Regions(template, self._time)
        self._functions = None if functions is None else {f["name"]: f.get("parameters") for f in functions}
        self._edges = _Edges()
        self._held: Region | None = None
        """A region of which nothing is told before it is whole."""
        self._over: set[str] = set()
        """Fields of which one region is over."""
        self._failed = False
        self._num_prompt_chars = 0
        """Of the text read, at its beginning."""
        self.num_calls = 0
        begun = template.answer_in(prompt, self._time)
        self._follow(self._regions.push(begun))
        self._num_prompt_chars = len(begun)
        self._edges.held = ""
        self.num_calls = 0

    @property
    def num_complete(self) -> int:
        return self.num_calls

    @property
    def inside_thought(self) -> bool:
        current = self._regions.current
        return not self._failed and current is not None and current.name in THOUGHTS

    def push(self, text: str) -> Read:
        return Read(text) if self._failed else self._follow(self._regions.push(text))

    def finish(self) -> Read:
        return Read() if self._failed else self._follow(self._regions.finish())

    def _follow(self, events: Iterable[Event]) -> Read:
        heard = _Heard()
        try:
            for event in events:
                self._hear(event, heard)
        except ReadingFailed:
            logger.warning("the response template can't be followed any further; the rest is given as text")
            self._failed = True
            held = self._held.raw if self._held is not None else self._edges.held
            rest = self._regions.rest
            heard.content += self._answers(held + rest, self._regions.num_done + len(rest))
        return Read(heard.content, heard.reasoning, tuple(heard.calls))

    def _hear(self, event: Event, heard: "_Heard") -> None:
        kind, region, text = event
        field = region.field
        if field.name == CALLS and self._functions is None:
            whole = {"open": region.opening_text, "text": text, "close": region.closing_text}
            heard.content += self._answers(whole[kind], self._regions.num_done)
        elif field.name == CALLS or (_is_told(field) and not field.is_plain_text):
            self._held = None if kind == "close" else region
            if kind == "close":
                self._hear_whole(region, heard)
        elif _is_told(field):
            self._hear_text(event, heard)

    def _hear_text(self, event: Event, heard: "_Heard") -> None:
        kind, region, text = event
        field = region.field
        if kind == "open" and field.name in self._over:
            heard.tell(field, field.join)
        elif kind == "text":
            text = self._answers(text, self._regions.num_done)
            heard.tell(field, self._edges.push(text) if field.is_stripped else text)
        elif kind == "close":
            self._edges = _Edges()
            self._over.add(field.name)

    def _hear_whole(self, region: Region, heard: "_Heard") -> None:
        try:
            if region.field.name == CALLS and region.is_cut:
                raise ValueError("its end is missing")
            value = region.field.value(region.body, region.captures, self._time)
            if region.field.name != CALLS:
                heard.tell(region.field, written(value))
                return
            calls = [self._call(one) for one in (value if isinstance(value, list) else [value])]
            if not region.opening_text.strip():
                self._check_offered(name for name, _ in calls)
        except (ValueError, TimeoutError, RecursionError):
            heard.content += self._answers(region.raw, self._regions.num_done)
            return
        for name, arguments in calls:
            heard.calls.append(new_call(self.num_calls, name, arguments))
            self.num_calls += 1

    def _check_offered(self, names: Iterable[str]) -> None:
        """Where no mark tells calls from an answer of the same shape, only the functions' names do."""
        if any(name not in (self._functions or {}) for name in names):
            raise ValueError("no such function is offered")

    def _answers(self, text: str, end: int) -> str:
        """What of `text`, of which `end` is the place in all the text read, is the answer's: the prompt's
        share is not told again."""
        num_chars = max(0, end - self._num_prompt_chars)
        return text[max(0, len(text) - num_chars) :]

    def _call(self, value: Any) -> tuple[str, str]:
        """Name and arguments of `{"function": {"name": ..., "arguments": {...}}}`, or of what is in it alone.
        ValueError for anything else."""
        function = value.get("function", value) if isinstance(value, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(name, str):
            raise ValueError("no function is named")
        arguments = function.get("arguments") or {}
        if isinstance(arguments, Mapping):
            arguments = cast_arguments(arguments, (self._functions or {}).get(name))
        elif not isinstance(arguments, str):
            raise ValueError("arguments are no object")
        return sound(name), written(arguments)


class _Heard:
    """What a piece of text adds, while it is put together."""

    def __init__(self) -> None:
        self.content = ""
        self.reasoning = ""
        self.calls: list[ToolDelta] = []

    def tell(self, field: Field, text: str) -> None:
        if field.name in THOUGHTS:
            self.reasoning += text
        else:
            self.content += text


class _Edges:
    """Leaves out white space at the beginning and, by holding it back, at the end."""

    def __init__(self) -> None:
        self.held = ""
        self._begun = False

    def push(self, text: str) -> str:
        text = self.held + text if self._begun else text.lstrip()
        told = text.rstrip()
        if len(text) - len(told) > MAX_HELD:
            told = text
        self._begun = self._begun or bool(told)
        self.held = text[len(told) :]
        return told


def _is_told(field: Field) -> bool:
    """Other fields have no place in OpenAI's message."""
    return field.name == CONTENT or field.name in THOUGHTS
