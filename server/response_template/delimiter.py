"""What opens or closes a stretch of a model's text: fixed strings or a regular expression, found while the
text is still coming.

Patterns are the checkpoint author's, the text is whatever a model writes: every search has a time limit.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import regex

SEARCH_TIMEOUT_S = 0.25


class ResponseTemplateError(ValueError):
    """A response template that can't be used. The text says why, in one line."""


class Found(NamedTuple):
    """match: the first certain occurrence. pending: where one begins that more text could still make, unmake
    or change."""

    match: Any = None
    pending: int | None = None


class Delimiter:
    """literals: the fixed strings, if it is made of such; else None."""

    def __init__(self, pattern: Any, literals: tuple[str, ...] | None) -> None:
        self.pattern = pattern
        self.literals = literals
        self._may_grow = literals is not None and any(
            longer != text and longer.startswith(text) for text in literals for longer in literals
        )

    @classmethod
    def of_strings(cls, strings: Sequence[str]) -> "Delimiter":
        longest_first = sorted(set(strings), key=len, reverse=True)
        return cls(compiled("|".join(map(regex.escape, longest_first))), tuple(dict.fromkeys(strings)))

    @property
    def group_names(self) -> frozenset[str]:
        return frozenset(self.pattern.groupindex)

    def find(self, text: str, start: int, at_end: bool) -> Found:
        """From `start` on. at_end: no more text comes. TimeoutError where the pattern takes too long."""
        match = self.pattern.search(text, start, partial=not at_end, timeout=SEARCH_TIMEOUT_S)
        if match is None:
            return Found()
        if not at_end and (match.partial or self._depends_on_the_rest(text, match)):
            return Found(pending=match.start())
        return Found(match)

    def end_of_last(self, text: str) -> int:
        """Where the last occurrence ends; -1 if there is none."""
        return max(
            (match.end() for match in self.pattern.finditer(text, timeout=SEARCH_TIMEOUT_S)), default=-1
        )

    def _depends_on_the_rest(self, text: str, match: Any) -> bool:
        at_edge = match.end() == len(text)
        if self.literals is not None:
            return at_edge and self._may_grow
        if at_edge:
            return True
        # An assertion such as `$` holds at the edge of what has come, and no longer once more has.
        longer = self.pattern.match(text + "\0", match.start(), timeout=SEARCH_TIMEOUT_S)
        return longer is None or _outcome(longer) != _outcome(match)


def _outcome(match: Any) -> tuple[Any, Any]:
    return match.span(), match.groupdict()


def compiled(pattern: str) -> Any:
    """As templates mean it: `.` matches line breaks too. ResponseTemplateError where it is none."""
    try:
        return regex.compile(pattern, regex.DOTALL)
    except (regex.error, TypeError, OverflowError, RecursionError) as error:
        raise ResponseTemplateError(f"{pattern!r} is no regular expression: {error}") from None
