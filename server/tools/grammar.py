"""Grammars of tool calls, forced or strict: the parser's own format, around each function's JSON schema."""

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from engine.messages import Grammar
from server.reasoning import CLOSE as THINK_CLOSE
from server.reasoning import OPEN as THINK_OPEN
from server.tools.form import TAGGED, CallForm

TAGS = (TAGGED.opening, TAGGED.closing, THINK_OPEN, THINK_CLOSE)
NO_TAGS: Mapping[str, int] = MappingProxyType({})
MAX_PARALLEL_CALLS = 16
_MORE = f"{{0,{MAX_PARALLEL_CALLS - 1}}}"
_NO_OBJECT = r"(\s*[^{\s](.|\n)*)?"

ANY_OBJECT = '{"type": "object"}'
COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""JSON is written one way only, so that a weak model can't fill its answer with blanks."""


def forced_call(
    functions: Sequence[dict[str, Any]],
    parallel: bool,
    tag_ids: Mapping[str, int] = NO_TAGS,
    form: CallForm = TAGGED,
) -> Grammar:
    """At least one call of one of `functions` (OpenAI's function objects), and nothing else. Rules in
    Lark's notation. tag_ids: the tags that are single tokens of this model, which are named by id."""
    rules = ["start: calls", *_calls(functions, parallel, tag_ids, form)]
    return Grammar("lark", "\n".join(rules) + "\n")


def calls_or_answer(
    functions: Sequence[dict[str, Any]],
    parallel: bool,
    answer: Grammar,
    tag_ids: Mapping[str, int] = NO_TAGS,
    form: CallForm = TAGGED,
) -> Grammar:
    """What `forced_call` allows, or else a whole answer. answer: its JSON, by schema or any object."""
    schema = ANY_OBJECT if answer.kind == "json_object" else answer.definition
    rules = [
        "start: calls | answer",
        f"answer: %json {schema}",
        *_calls(functions, parallel, tag_ids, form),
    ]
    return Grammar("lark", "\n".join(rules) + "\n")


def strict_calls(
    functions: Sequence[dict[str, Any]], tag_ids: Mapping[str, int] = NO_TAGS, form: CallForm = TAGGED
) -> Grammar:
    """Any text, thoughts included; but what follows an opening tag, spelled out or as one token, is a call of
    one of `functions`. Without opening tags: such a call, or text that is no object."""
    if not form.opening:
        rules = ["start: body | other", rf"other: /{_NO_OBJECT}/", *_bodies(functions, tag_ids, form)]
        return Grammar("lark", "\n".join(rules) + "\n")
    pieces = ["open body"]
    if form.opening in tag_ids:
        pieces.append(f"TEXT {_tag(form.opening, tag_ids)} body")
    pieces += [f"TEXT {_tag(tag, tag_ids)}" for tag in tag_ids if tag not in (form.opening, form.closing)]
    rules = [
        "start: piece* rest",
        "piece: " + " | ".join(pieces),
        f"open[lazy]: TEXT {json.dumps(form.opening)}",
        "rest: TEXT",
        r"TEXT: /(.|\n)*/",
        *_bodies(functions, tag_ids, form),
    ]
    return Grammar("lark", "\n".join(rules) + "\n")


def _calls(
    functions: Sequence[dict[str, Any]], parallel: bool, tag_ids: Mapping[str, int], form: CallForm
) -> Iterator[str]:
    many = parallel and bool(form.opening)
    if form.in_list:
        yield f"calls: {_tag(form.opening, tag_ids)} body"
    else:
        separator = '"\\n" ' if form.closing else ""
        yield "calls: call" + (f" ({separator}call){_MORE}" if many else "")
        yield f"call: {_tag(form.opening, tag_ids)} body"
    yield from _bodies(functions, tag_ids, form, many)


def _tag(tag: str, tag_ids: Mapping[str, int]) -> str:
    """As a rule has it: nothing for no tag."""
    return f"<[{tag_ids[tag]}]>" if tag in tag_ids else json.dumps(tag) if tag else ""


def _bodies(
    functions: Sequence[dict[str, Any]], tag_ids: Mapping[str, int], form: CallForm, many: bool = True
) -> Iterator[str]:
    """Rules for all of a call that follows its opening tag; many: or of several, where they are a list."""
    if form.in_list:
        yield 'body: " "? "[" item' + (f' (", " item){_MORE}' if many else "") + ' "]"'
    yield f"{'item' if form.in_list else 'body'}: " + " | ".join(f"body_{i}" for i in range(len(functions)))
    for index, function in enumerate(functions):
        head, tail = _around_arguments(function["name"], tag_ids, form)
        yield f"body_{index}: {head} arguments_{index} {tail}"
        yield f"arguments_{index}: %json {json.dumps(parameters(function))}"


def _around_arguments(name: str, tag_ids: Mapping[str, int], form: CallForm) -> tuple[str, str]:
    closing = _tag(form.closing, tag_ids)
    if form.joint:
        return f"{json.dumps(name)} {_tag(form.joint, tag_ids)}", closing
    name_key, arguments_key = json.dumps(form.name_key), json.dumps(form.arguments_key)
    head = json.dumps(f'{form.edge}{{{name_key}: "{name}", {arguments_key}: ')
    return head, json.dumps("}" + form.edge) + " " + closing


def parameters(function: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a function's arguments."""
    return compact(function.get("parameters") or {"type": "object"})


def compact(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema`, written one way only (see COMPACT)."""
    return {**schema, "x-guidance": COMPACT}
