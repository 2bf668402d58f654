"""The form of calls that a response template reads, where it is simple enough for a grammar to enforce."""

import re
from collections.abc import Mapping
from typing import Any

from server.response_template.delimiter import Delimiter
from server.response_template.reader import CALLS
from server.response_template.template import Field, ResponseTemplate
from server.tools.form import TAGGED, CallForm

_WITHIN = re.compile(r"\{content\.(\w+)\}")
_LITERAL = re.compile(r"(?:[^\\.^$*+?{}\[\]|()]|\\\W)+")


def call_form(template: ResponseTemplate) -> CallForm | None:
    """TAGGED where the template leaves calls to the fallback; None where calls are not one object of JSON
    between two fixed marks."""
    field = template.fields.get(CALLS)
    if field is None:
        return TAGGED
    if field.content != "json" or field.args.get("string_delims") or field.transform_each:
        return None
    opening, closing, keys = _spelled(field.opening), _spelled(field.closing), _keys(field)
    if not opening or not closing or keys is None:
        return None
    return CallForm(opening, closing, keys[0], keys[1], edge=TAGGED.edge if opening == TAGGED.opening else "")


def _spelled(delimiter: Delimiter | None) -> str:
    """The one text that the delimiter stands for, white space around it aside; empty if there are others."""
    if delimiter is None:
        return ""
    if delimiter.literals is not None:
        return delimiter.literals[0] if len(delimiter.literals) == 1 else ""
    pattern = delimiter.pattern.pattern.removeprefix(r"\s*").removesuffix(r"\s*")
    return re.sub(r"\\(.)", r"\1", pattern) if _LITERAL.fullmatch(pattern) else ""


def _keys(field: Field) -> tuple[str, str] | None:
    """Under which keys of its JSON the field has a function's name and its arguments."""
    function = field.transform
    if isinstance(function, Mapping):
        function = function.get("function", function)
    if function in (None, "{content}"):
        return TAGGED.name_key, TAGGED.arguments_key
    if not isinstance(function, Mapping):
        return None
    name, arguments = _key(function, "name"), _key(function, "arguments")
    return (name, arguments) if name and arguments else None


def _key(function: Mapping[str, Any], name: str) -> str:
    match = _WITHIN.fullmatch(str(function.get(name)))
    return match[1] if match else ""
