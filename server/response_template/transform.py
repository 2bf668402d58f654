"""A field's value put into another shape: a template of data in which `"{name}"` stands for a value, and
`"{name.key}"` for one within it."""

import re
from collections.abc import Mapping
from typing import Any

from server.response_template.delimiter import ResponseTemplateError

_PLACEHOLDER = re.compile(r"\{(\w+(?:\.\w+)*)\}")


def check(shape: Any) -> None:
    """ResponseTemplateError for a string that is partly a placeholder: nothing is put into text."""
    for value in _leaves(shape):
        if isinstance(value, str) and _PLACEHOLDER.search(value) and not _PLACEHOLDER.fullmatch(value):
            raise ResponseTemplateError(f"transform mixes a placeholder with text: {value!r}")


def fill(shape: Any, scope: Mapping[str, Any]) -> Any:
    """ValueError where a placeholder names what is not there."""
    if isinstance(shape, dict):
        return {key: fill(value, scope) for key, value in shape.items()}
    if isinstance(shape, list):
        return [fill(value, scope) for value in shape]
    placeholder = _PLACEHOLDER.fullmatch(shape) if isinstance(shape, str) else None
    if placeholder is None:
        return shape
    value: Any = scope
    for key in placeholder[1].split("."):
        if not isinstance(value, Mapping) or key not in value:
            raise ValueError(f"there is no {placeholder[0]}")
        value = value[key]
    return value


def _leaves(shape: Any) -> Any:
    if isinstance(shape, dict):
        shape = list(shape.values())
    if isinstance(shape, list):
        for value in shape:
            yield from _leaves(value)
    else:
        yield shape
