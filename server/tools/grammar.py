"""Grammars of tool calls, forced or strict: the parser's own format, around each function's JSON schema."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from engine.messages import Grammar
from server.tools.parser import CLOSE, OPEN

MAX_PARALLEL_CALLS = 16

COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""JSON is written one way only, so that a weak model can't fill its answer with blanks."""


def forced_call(functions: Sequence[dict[str, Any]], parallel: bool) -> Grammar:
    """At least one call of one of `functions` (OpenAI's function objects), and nothing else. Rules in
    Lark's notation."""
    more = f' ("\\n" call){{0,{MAX_PARALLEL_CALLS - 1}}}' if parallel else ""
    rules = [f"start: call{more}", f"call: {json.dumps(OPEN)} body", *_bodies(functions)]
    return Grammar("lark", "\n".join(rules) + "\n")


def strict_calls(functions: Sequence[dict[str, Any]]) -> Grammar:
    """Any text; but what follows an opening tag is a call of one of `functions`."""
    rules = [
        "start: call* text",
        "call: open body",
        f"open[lazy]: TEXT {json.dumps(OPEN)}",
        "text: TEXT",
        r"TEXT: /(.|\n)*/",
        *_bodies(functions),
    ]
    return Grammar("lark", "\n".join(rules) + "\n")


def _bodies(functions: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Rules for all of a call that follows its opening tag."""
    yield "body: " + " | ".join(f"body_{index}" for index in range(len(functions)))
    for index, function in enumerate(functions):
        head = json.dumps(f'\n{{"name": "{function["name"]}", "arguments": ')
        tail = json.dumps(f"}}\n{CLOSE}")
        schema = compact(function.get("parameters") or {"type": "object"})
        yield f"body_{index}: {head} arguments_{index} {tail}"
        yield f"arguments_{index}: %json {json.dumps(schema)}"


def compact(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema`, written one way only (see COMPACT)."""
    return {**schema, "x-guidance": COMPACT}
