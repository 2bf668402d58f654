"""What opens or closes a stretch of a model's text: fixed strings or a regular expression, found while the
text is still coming.

Every search takes of the answer's SearchTime, and raises TimeoutError where that is used up.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import regex

from server.response_template.search_time import SearchTime


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

    def find(self, text: str, start: int, at_end: bool, time: SearchTime) -> Found:
        """From `start` on. at_end: no more text comes."""
        match = time.spend(
            lambda timeout: self.pattern.search(text, start, partial=not at_end, timeout=timeout)
        )
        if match is None:
            return Found()
        if not at_end and (match.partial or self._depends_on_the_rest(text, match, time)):
            return Found(pending=match.start())
        return Found(match)

    def end_of_last(self, text: str, time: SearchTime) -> int:
        """Where the last occurrence ends; -1 if there is none."""
        found = time.spend(lambda timeout: list(self.pattern.finditer(text, timeout=timeout)))
        return max((match.end() for match in found), default=-1)

    def _depends_on_the_rest(self, text: str, match: Any, time: SearchTime) -> bool:
        at_edge = match.end() == len(text)
        if self.literals is not None:
            return at_edge and self._may_grow
        if at_edge:
            return True
        # An assertion such as `$` holds at the edge of what has come, and no longer once more has.
        longer = time.spend(lambda timeout: self.pattern.match(text + "\0", match.start(), timeout=timeout))
        return longer is None or _outcome(longer) != _outcome(match)


def _outcome(match: Any) -> tuple[Any, Any]:
    return match.span(), match.groupdict()


def compiled(pattern: str) -> Any:
    """As templates mean it: `.` matches line breaks too. ResponseTemplateError where it is none."""
    try:
        return regex.compile(pattern, regex.DOTALL)
    except (regex.error, TypeError, OverflowError, RecursionError) as error:
        raise ResponseTemplateError(f"{pattern!r} is no regular expression: {error}") from None
