"""An answer's text divided into regions, each a stretch of one field, while it comes.

Nothing is passed on that could still turn out to be part of a delimiter. Knows delimiters; not what a field
means.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from server.markers import MAX_HELD
from server.response_template.search_time import SearchTime
from server.response_template.template import Field, ResponseTemplate
from server.tools.json_scan import ObjectScanner

_BEHIND = 1024
"""Characters kept of what is done with, for patterns that look back."""


_SELF_ENDING = ("json", "python-call-list")
"""Contents of which no beginning is one too."""


class ReadingFailed(Exception):
    """The template can't be followed any further on this text."""


class Region:
    """One stretch. `body` is its text so far, `captures` the named groups of its delimiters."""

    def __init__(self, field: Field, opening: Any = None) -> None:
        self.field = field
        self.opening_text = opening[0] if opening is not None else ""
        self.captures = _captures(opening)
        self.body = ""
        self.closing_text = ""
        self.is_closed = False
        self._scanner = ObjectScanner() if field.has_json_strings else None

    def add(self, text: str) -> None:
        self.body += text
        if self._scanner is not None and not self._scanner.complete:
            self._scanner.scan(text)

    @property
    def in_string(self) -> bool:
        """Whether more text would be part of one of its JSON's strings."""
        return self._scanner is not None and self._scanner.in_string

    @property
    def is_cut(self) -> bool:
        """Whether it ended without its closing delimiter, and its text does not show by itself that it is
        whole."""
        return (
            self.field.closing is not None and not self.is_closed and self.field.content not in _SELF_ENDING
        )

    @property
    def raw(self) -> str:
        return self.opening_text + self.body + self.closing_text


class Event(NamedTuple):
    """text: only where more of the region's body came."""

    kind: Literal["open", "text", "close"]
    region: Region
    text: str = ""


class _Mark(NamedTuple):
    """A delimiter found: it opens `field`, or closes the region that is open."""

    match: Any
    opens: Field | None


class Regions:
    """Protocol: `push` text as it comes, then `finish` once. Both raise ReadingFailed, after which `rest`
    holds the text that was not told of; only `rest` may be asked then."""

    def __init__(self, template: ResponseTemplate, time: SearchTime) -> None:
        self._template = template
        self._time = time
        self._text = ""
        self._done = 0
        self._num_cut = 0
        self._open: Region | None = None

    @property
    def current(self) -> Field | None:
        """The field whose text comes now; None outside all of them."""
        return self._open.field if self._open is not None else self._template.leftover

    @property
    def num_done(self) -> int:
        """Characters of all text up to the end of what was told of last."""
        return self._num_cut + self._done

    @property
    def rest(self) -> str:
        return self._text[self._done :]

    def push(self, text: str) -> Iterator[Event]:
        self._text += text
        yield from self._advance(at_end=False)
        if len(self.rest) > MAX_HELD:  # some patterns search from each of them on
            raise ReadingFailed
        if self._done > 8 * _BEHIND:
            self._num_cut += self._done - _BEHIND
            self._text, self._done = self._text[self._done - _BEHIND :], _BEHIND

    def finish(self) -> Iterator[Event]:
        yield from self._advance(at_end=True)
        yield from self._close(None)

    def _advance(self, at_end: bool) -> Iterator[Event]:
        num_empty = 0
        while True:
            mark, end = self._next_mark(at_end)
            yield from self._take(mark.match.start() if mark is not None else end)
            if mark is None:
                return
            if self._is_quoted(mark):
                if self._done == len(self._text):
                    return
                yield from self._take(max(mark.match.end(), self._done + 1))
                continue
            num_empty = num_empty + 1 if mark.match.end() == mark.match.start() else 0
            if num_empty > len(self._template.fields):
                raise ReadingFailed  # it opens and closes on nothing, for ever
            if mark.opens is None and self._open is None and num_empty:
                yield from self._take(len(self._text) if at_end else end)
                return
            self._done = mark.match.end()
            yield from self._close(mark.match if mark.opens is None else None)
            if mark.opens is not None:
                self._open = Region(mark.opens, mark.match)
                yield Event("open", self._open)

    def _is_quoted(self, mark: _Mark) -> bool:
        """Whether it stands in a string that the open region has begun, up to where it was told of."""
        return mark.opens is None and self._open is not None and self._open.in_string

    def _next_mark(self, at_end: bool) -> tuple[_Mark | None, int]:
        """The first certain delimiter, the longest of those that begin together; and up to where text is
        certainly none. A delimiter behind another that is not yet certain is not certain either."""
        best: _Mark | None = None
        certain = len(self._text)
        for delimiter, opens in self._watched():
            try:
                found = delimiter.find(self._text, self._done, at_end, self._time)
            except TimeoutError:
                raise ReadingFailed from None
            if found.pending is not None:
                certain = min(certain, found.pending)
            elif found.match is not None and (best is None or _rank(found.match, opens) < _rank(*best)):
                best = _Mark(found.match, opens)
        if best is not None and best.match.start() >= certain:
            best = None
        return best, certain

    def _watched(self) -> Iterator[tuple[Any, Field | None]]:
        """Within a field only its end counts; outside, every beginning and the leftover field's own end."""
        leftover = self._template.leftover
        current = self._open.field if self._open is not None else leftover
        if current is leftover:
            yield from ((f.opening, f) for f in self._template.fields.values() if f.opening is not None)
        if current is not None and current.closing is not None:
            yield current.closing, None

    def _take(self, end: int) -> Iterator[Event]:
        text = self._text[self._done : end]
        self._done = end
        if not text:
            return
        if self._open is None:
            if self._template.leftover is None:
                return
            self._open = Region(self._template.leftover)
            yield Event("open", self._open)
        self._open.add(text)
        yield Event("text", self._open, text)

    def _close(self, match: Any) -> Iterator[Event]:
        region, self._open = self._open, None
        if region is not None:
            if match is not None:
                region.closing_text, region.is_closed = match[0], True
                region.captures |= _captures(match)
            yield Event("close", region)


def _rank(match: Any, opens: Field | None) -> tuple[int, int, bool, str]:
    return match.start(), match.start() - match.end(), opens is None, opens.name if opens is not None else ""


def _captures(match: Any) -> dict[str, str]:
    if match is None:
        return {}
    return {name: text for name, text in match.groupdict().items() if text is not None}
