"""Arguments of a call that came as text, in the types that the called function's JSON schema gives them.

Some formats write every argument as text. Only text is touched, and only where the cast gives what JSON can
hold.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from server.tools.parser import json_text

_NUMBER = re.compile(r"\s*-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\s*")
"""As JSON has it."""


def cast_arguments(arguments: Mapping[str, Any], parameters: Any) -> dict[str, Any]:
    """parameters: the function's JSON schema."""
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    if not isinstance(properties, Mapping):
        return dict(arguments)
    return {name: _cast(value, tuple(_types(properties.get(name)))) for name, value in arguments.items()}


def _cast(value: Any, types: tuple[str, ...]) -> Any:
    if isinstance(value, list) and types and "array" not in types:  # one argument, given several times
        return [_cast_text(item, types) if isinstance(item, str) else item for item in value]
    return _cast_text(value, types) if isinstance(value, str) else value


def _cast_text(text: str, types: tuple[str, ...]) -> Any:
    """By the first type that the text fits; a type without a cast fits none."""
    for name in types:
        try:
            value = _CASTS[name](text)
            json_text(value)
            return value
        except (KeyError, ValueError, RecursionError):
            continue
    return text


def _types(schema: Any) -> Iterator[str]:
    """The types that a schema allows, in the order in which they are named."""
    if not isinstance(schema, Mapping):
        return
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    yield from (name for name in names if isinstance(name, str))
    for union in ("anyOf", "oneOf"):
        choices = schema.get(union)
        for choice in choices if isinstance(choices, list) else ():
            yield from _types(choice)
    if schema.get("nullable"):
        yield "null"


def _integer(text: str) -> int:
    """JSON Schema's integers may be written with a point: 3.0."""
    number = _number(text)
    if number != int(number):
        raise ValueError("a whole number is expected")
    return int(number)


def _number(text: str) -> int | float:
    if not _NUMBER.fullmatch(text):
        raise ValueError("JSON has no such number")
    if text.strip().lstrip("-").isdecimal():
        return int(text)
    number = float(text)
    if math.isinf(number):
        raise ValueError("JSON has no such number")
    return int(number) if number.is_integer() and "." not in text else number


def _boolean(text: str) -> bool:
    return _known(text.lower(), "true", "1", "false", "0") in ("true", "1")


def _null(text: str) -> None:
    _known(text, "null", "None")


def _known(text: str, *words: str) -> str:
    word = text.strip()
    if word not in words:
        raise ValueError("another word is expected")
    return word


def _json_of(kind: type) -> Callable[[str], Any]:
    def cast(text: str) -> Any:
        value = json.loads(text)
        if not isinstance(value, kind):
            raise ValueError("another kind of value is expected")
        return value

    return cast


_CASTS: dict[str, Callable[[str], Any]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
    "object": _json_of(dict),
    "array": _json_of(list),
}
