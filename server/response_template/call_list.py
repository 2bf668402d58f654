"""Calls written as in Python, `[weather(city="Bern", days=3), time()]`, as data. Strict: what is not exactly
of this form is refused, and nothing is ever evaluated."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

MAX_DEPTH = 100
"""Lists and objects within one another."""
MAX_INTEGER = 2**53 - 1
"""What every JSON reader keeps exactly."""
_MAX_DIGITS = 17

_TOKEN = re.compile(
    r"""[ \t\n\r]*(?:
      (?P<string>'(?:[^'\\\n\r]|\\.)*' | "(?:[^"\\\n\r]|\\.)*")
    | (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:[-.][A-Za-z0-9_]+)*)
    | (?P<sign>[\[\](){},:=])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {**{char: char for char in "\\'\"/"}, "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_CONSTANTS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}


class _Token(NamedTuple):
    kind: str
    text: str


def read_call_list(text: str) -> list[dict[str, Any]]:
    """`[{"name": ..., "arguments": {...}}]`. ValueError for anything else."""
    reader = _Reader(_tokens(text))
    reader.take("[")
    calls = reader.items("]", reader.call)
    reader.take("")
    return calls


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"neither a call nor a value at character {position}")
        kind = match.lastgroup or ""
        yield _Token(kind, match[kind])
        if kind == "end":
            return
        position = match.end()


class _Reader:
    def __init__(self, tokens: Iterator[_Token]) -> None:
        self._tokens = tokens
        self._next = next(tokens)

    def take(self, sign: str) -> None:
        if not self._at(sign):
            raise ValueError(f"`{sign}` expected, not `{self._next.text[:20]}`")
        self._advance()

    def items(self, closing: str, item: Callable[[], Any]) -> list[Any]:
        found: list[Any] = []
        while not self._at(closing):
            if found:
                self.take(",")
            found.append(item())
        self.take(closing)
        return found

    def call(self) -> dict[str, Any]:
        name = self._name()
        self.take("(")
        return {"name": name, "arguments": _unique(self.items(")", self._argument))}

    def _argument(self) -> tuple[str, Any]:
        name = self._name()
        self.take("=")
        return name, self._value(0)

    def _value(self, depth: int) -> Any:
        """depth: lists and objects around it."""
        kind, text = self._next
        if kind == "sign" and text in "[{":
            if depth == MAX_DEPTH:
                raise ValueError("nested too deeply")
            self._advance()
            if text == "[":
                return self.items("]", lambda: self._value(depth + 1))
            return _unique(self.items("}", lambda: self._pair(depth + 1)))
        self._advance()
        if kind == "string":
            return _string(text)
        if kind == "number":
            return _number(text)
        if kind == "name" and text in _CONSTANTS:
            return _CONSTANTS[text]
        raise ValueError(f"a value expected, not `{text[:20]}`")

    def _pair(self, depth: int) -> tuple[str, Any]:
        kind, text = self._next
        if kind != "string":
            raise ValueError("keys must be strings")
        self._advance()
        self.take(":")
        return _string(text), self._value(depth)

    def _name(self) -> str:
        kind, text = self._next
        if kind != "name":
            raise ValueError(f"a name expected, not `{text[:20]}`")
        self._advance()
        return text

    def _at(self, sign: str) -> bool:
        return self._next.kind in ("sign", "end") and self._next.text == sign

    def _advance(self) -> None:
        self._next = next(self._tokens, self._next)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name appears twice")
    return found


def _string(quoted: str) -> str:
    """UnicodeError, a ValueError, for half of a surrogate pair."""
    text = _ESCAPE.sub(_unescaped, quoted[1:-1])
    return text.encode("utf-16", "surrogatepass").decode("utf-16")


def _unescaped(match: re.Match[str]) -> str:
    what = match[1]
    if len(what) > 1:
        return chr(int(what[1:], 16))
    if what not in _ESCAPES:
        raise ValueError(f"unknown escape \\{what}")
    return _ESCAPES[what]


def _number(text: str) -> int | float:
    if set(text) & set(".eE"):
        number = float(text)
        if math.isinf(number):
            raise ValueError("a number is too large")
        return number
    if len(text) > _MAX_DIGITS or abs(int(text)) > MAX_INTEGER:
        raise ValueError("an integer is too large")
    return int(text)
