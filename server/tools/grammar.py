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
    one of `functions`."""
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
    more = f' ("\\n" call){{0,{MAX_PARALLEL_CALLS - 1}}}' if parallel else ""
    yield f"calls: call{more}"
    yield f"call: {_tag(form.opening, tag_ids)} body"
    yield from _bodies(functions, tag_ids, form)


def _tag(tag: str, tag_ids: Mapping[str, int]) -> str:
    return f"<[{tag_ids[tag]}]>" if tag in tag_ids else json.dumps(tag)


def _bodies(functions: Sequence[dict[str, Any]], tag_ids: Mapping[str, int], form: CallForm) -> Iterator[str]:
    """Rules for all of a call that follows its opening tag."""
    yield "body: " + " | ".join(f"body_{index}" for index in range(len(functions)))
    for index, function in enumerate(functions):
        name_key, arguments_key = json.dumps(form.name_key), json.dumps(form.arguments_key)
        head = json.dumps(f'{form.edge}{{{name_key}: "{function["name"]}", {arguments_key}: ')
        tail = json.dumps("}" + form.edge) + " " + _tag(form.closing, tag_ids)
        schema = parameters(function)
        yield f"body_{index}: {head} arguments_{index} {tail}"
        yield f"arguments_{index}: %json {json.dumps(schema)}"


def parameters(function: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a function's arguments."""
    return compact(function.get("parameters") or {"type": "object"})


def compact(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema`, written one way only (see COMPACT)."""
    return {**schema, "x-guidance": COMPACT}
