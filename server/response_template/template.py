"""A response template, checked and compiled: which fields an answer's text has, what opens and closes each,
and what its text means."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from server.response_template import transform
from server.response_template.content import ReadValue, value_reader
from server.response_template.delimiter import Delimiter, ResponseTemplateError, compiled
from server.response_template.search_time import SearchTime

_TEMPLATE_KEYS = {"version", "defaults", "fields", "start_anchor", "start_anchor_pattern"}
_FIELD_KEYS = {
    *("open", "open_pattern", "close", "close_pattern", "content", "content_args"),
    *("repeats", "join", "optional", "transform", "transform_each"),
}


@dataclass(frozen=True)
class Field:
    """One field of the message. `opening` is None for the one that takes all text outside the others; without
    `closing` it goes on to the end. `join`: what stands between the texts of a field that comes again."""

    name: str
    opening: Delimiter | None
    closing: Delimiter | None
    content: str
    args: Mapping[str, Any]
    read: ReadValue
    join: str
    transform: Any
    transform_each: bool

    @property
    def is_plain_text(self) -> bool:
        """Its text is its value, but for white space around it, and so can be told while it comes."""
        return self.content == "text" and self.transform is None

    @property
    def has_json_strings(self) -> bool:
        """Its text has strings as JSON has them, in which no delimiter is meant as one."""
        return self.content == "json" and not (
            self.args.get("string_delims") or self.args.get("allow_non_json")
        )

    @property
    def is_stripped(self) -> bool:
        return bool(self.args.get("strip", True))

    def value(self, body: str, captures: Mapping[str, str], time: SearchTime) -> Any:
        """ValueError for text that is not of the field's form, or lacks what the transform needs. captures:
        the named groups of what opened and closed it. TimeoutError where `time` is used up."""
        value = self.read(body, time)
        if self.transform is None:
            return value
        if not self.transform_each:
            return transform.fill(self.transform, {**captures, "content": value})
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise ValueError("a list of objects is expected")
        return [transform.fill(self.transform, {**captures, **item}) for item in value]


@dataclass(frozen=True)
class ResponseTemplate:
    """anchor: what an answer begins after, within the prompt. leftover: the field of text outside all
    others."""

    anchor: Delimiter
    fields: Mapping[str, Field]
    leftover: Field | None

    @classmethod
    def load(cls, data: Any) -> "ResponseTemplate":
        """data: as in tokenizer_config.json. ResponseTemplateError says what is wrong with it."""
        if not isinstance(data, dict):
            raise ResponseTemplateError("it is no object")
        if data.get("version", 1) != 1:
            raise ResponseTemplateError(f"version {data['version']!r} is not known")
        _check_keys(data, _TEMPLATE_KEYS)
        if not isinstance(data.get("defaults", {}), dict):
            raise ResponseTemplateError("defaults is no object")
        fields = data.get("fields")
        if not isinstance(fields, dict) or not fields:
            raise ResponseTemplateError("it has no fields")
        anchor = _delimiter(data, "start_anchor", "start_anchor_pattern")
        if anchor is None:
            raise ResponseTemplateError("it has no start_anchor")
        made = {name: _named_field(name, field) for name, field in fields.items()}
        leftover = [field for field in made.values() if field.opening is None]
        if len(leftover) > 1:
            names = ", ".join(field.name for field in leftover)
            raise ResponseTemplateError(f"only one field may do without open: {names}")
        return cls(anchor, made, leftover[0] if leftover else None)

    def answer_in(self, prompt: str, time: SearchTime) -> str:
        """What of the answer the prompt already holds. Empty where it has no anchor that can be found."""
        try:
            end = self.anchor.end_of_last(prompt, time)
        except TimeoutError:
            return ""
        return prompt[end:] if end >= 0 else ""

    def mentions(self, token: str) -> bool:
        """Whether a token's text is part of what opens or closes a field."""
        delimiters = [
            delimiter
            for field in self.fields.values()
            for delimiter in (field.opening, field.closing)
            if delimiter is not None
        ]
        return any(token in delimiter.pattern.pattern.replace("\\", "") for delimiter in delimiters)


def _named_field(name: str, data: Any) -> Field:
    try:
        return _field(name, data)
    except ResponseTemplateError as error:
        raise ResponseTemplateError(f"field {name!r}: {error}") from None


def _field(name: str, data: Any) -> Field:
    if not isinstance(data, dict):
        raise ResponseTemplateError("it is no object")
    _check_keys(data, _FIELD_KEYS)
    opening, closing = _delimiter(data, "open", "open_pattern"), _delimiter(data, "close", "close_pattern")
    kind, args = data.get("content", "text"), data.get("content_args", {})
    shape, each, join = data.get("transform"), data.get("transform_each", False), data.get("join")
    if not isinstance(each, bool) or (each and shape is None):
        raise ResponseTemplateError("transform_each is no true or false beside a transform")
    if join is not None and not (isinstance(join, str) and data.get("repeats")):
        raise ResponseTemplateError("join must be a string, beside repeats")
    transform.check(shape)
    groups = {group for mark in (opening, closing) if mark is not None for group in mark.group_names}
    if groups and shape is None:
        raise ResponseTemplateError(f"named groups without a transform: {', '.join(sorted(groups))}")
    return Field(name, opening, closing, kind, args, value_reader(kind, args), join or "", shape, each)


def _delimiter(data: dict[str, Any], strings_key: str, pattern_key: str) -> Delimiter | None:
    if strings_key in data and pattern_key in data:
        raise ResponseTemplateError(f"{strings_key} and {pattern_key} exclude each other")
    if pattern_key in data:
        return Delimiter(compiled(data[pattern_key]), None)
    if strings_key not in data:
        return None
    strings = [data[strings_key]] if isinstance(data[strings_key], str) else data[strings_key]
    if not isinstance(strings, list) or not strings or not all(isinstance(s, str) and s for s in strings):
        raise ResponseTemplateError(
            f"{strings_key} must be a string or a list of strings, none of them empty"
        )
    return Delimiter.of_strings(strings)


def _check_keys(data: dict[str, Any], known: set[str]) -> None:
    unknown = sorted(str(key) for key in data.keys() - known)
    if unknown:
        raise ResponseTemplateError(f"unknown keys: {', '.join(unknown)}")
