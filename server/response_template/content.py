"""The text of one field as a value: plain text, numbers, JSON and its dialects, tags, lines, lists of calls.

Every reader raises ValueError for text that is not of its form, TimeoutError where the answer's
SearchTime is used up.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import regex

from server.response_template.call_list import read_call_list
from server.response_template.delimiter import ResponseTemplateError, compiled
from server.response_template.search_time import SearchTime

ReadValue = Callable[[str, SearchTime], Any]
"""From a field's text to its value."""
Args = Mapping[str, Any]

_QUOTED = r'"(?:\\.|[^"\\])*"'
_BARE_KEY = r"(?<=[{,])(?P<before>\s*)(?P<key>\w+)(?P<after>\s*):"


def value_reader(kind: Any, args: Any) -> ReadValue:
    """The reader of one `content` kind with its `content_args`. ResponseTemplateError where they are none."""
    if not isinstance(kind, str) or kind not in _MAKERS:
        raise ResponseTemplateError(f"unknown content {kind!r}; known are {', '.join(_MAKERS)}")
    if not isinstance(args, dict):
        raise ResponseTemplateError("content_args is no object")
    return _MAKERS[kind](args)


def _text(args: Args) -> Callable[[str], str]:
    return str.strip if args.get("strip", True) else str


def _str(args: Args) -> ReadValue:
    text = _text(args)
    return lambda body, time: text(body)


def _int(args: Args) -> ReadValue:
    text = _text(args)
    return lambda body, time: int(text(body))


def _float(args: Args) -> ReadValue:
    text = _text(args)
    return lambda body, time: float(text(body))


def _bool(args: Args) -> ReadValue:
    text = _text(args)
    return lambda body, time: text(body).lower() in ("true", "1")


def _json(args: Args) -> ReadValue:
    """unquoted_keys: `{city: "Bern"}`. string_delims: other marks around strings. allow_non_json: text stays
    text."""
    dialect = _dialect(args.get("string_delims") or [], bool(args.get("unquoted_keys")))
    text = _text(args)

    def read(body: str, time: SearchTime) -> Any:
        try:
            return json.loads(dialect(body, time))
        except RecursionError:
            raise ValueError("nested too deeply") from None
        except json.JSONDecodeError:
            if args.get("allow_non_json"):
                return text(body)
            raise

    return read


def _dialect(string_delims: Any, unquoted_keys: bool) -> Callable[[str, SearchTime], str]:
    """Turns a dialect of JSON into JSON, in one pass, so that what stands in a string is left alone."""
    if not _are_pairs(string_delims):
        raise ResponseTemplateError("string_delims is no list of pairs of strings")
    if not string_delims and not unquoted_keys:
        return lambda body, time: body
    strings = [
        f"{regex.escape(opening)}(?P<string>.*?){regex.escape(closing)}" for opening, closing in string_delims
    ]
    pattern = compiled("|".join([*strings, _QUOTED, *([_BARE_KEY] if unquoted_keys else [])]))

    def plain(match: Any) -> str:
        groups = match.groupdict()
        if groups.get("string") is not None:
            return json.dumps(groups["string"])
        if groups.get("key") is not None:
            return f'{groups["before"]}"{groups["key"]}"{groups["after"]}:'
        return match[0]

    return lambda body, time: time.spend(lambda timeout: pattern.sub(plain, body, timeout=timeout))


def _are_pairs(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(pair, list | tuple)
        and len(pair) == 2
        and all(isinstance(text, str) and text for text in pair)
        for pair in value
    )


def _xml_inline(args: Args) -> ReadValue:
    """Flat tags, each a key and a value, as `tag_pattern` names them."""
    tag_pattern = args.get("tag_pattern")
    if not isinstance(tag_pattern, str):
        raise ResponseTemplateError("xml-inline needs tag_pattern")
    pattern = compiled(tag_pattern)
    if "key" not in pattern.groupindex:
        raise ResponseTemplateError("tag_pattern has no group `key`")
    value_of = _inner_reader(args)

    def read(body: str, time: SearchTime) -> dict[str, Any]:
        values: dict[str, list[Any]] = {}
        for match in time.spend(lambda timeout: list(pattern.finditer(body, timeout=timeout))):
            groups = match.groupdict()
            if groups["key"] is None:
                raise ValueError("a tag has no key")
            values.setdefault(groups["key"], []).append(value_of(groups.get("value") or "", time))
        merges = args.get("merge_duplicates", False)
        return {key: found if merges and len(found) > 1 else found[-1] for key, found in values.items()}

    return read


def _kv_lines(args: Args) -> ReadValue:
    """`key: value` lines; others are skipped."""
    line_sep, kv_sep = args.get("line_sep", "\n"), args.get("kv_sep", ":")
    if not all(isinstance(separator, str) and separator for separator in (line_sep, kv_sep)):
        raise ResponseTemplateError("line_sep and kv_sep must be strings")
    text, value_of = _text(args), _inner_reader(args)

    def read(body: str, time: SearchTime) -> dict[str, Any]:
        pairs = (text(line).partition(kv_sep) for line in body.split(line_sep))
        return {text(key): value_of(text(value), time) for key, separator, value in pairs if separator}

    return read


def _inner_reader(args: Args) -> ReadValue:
    """value_parser, if there is one: the kind of content that each value is."""
    parser = args.get("value_parser")
    if parser is None:
        return lambda body, time: body
    if not isinstance(parser, dict):
        raise ResponseTemplateError("value_parser is no object")
    return value_reader(parser.get("name", "text"), parser.get("args", {}))


_MAKERS: dict[str, Callable[[Args], ReadValue]] = {
    "text": _str,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "json": _json,
    "xml-inline": _xml_inline,
    "kv-lines": _kv_lines,
    "python-call-list": lambda args: lambda body, time: read_call_list(body),
}
