"""The grammar that makes a model call a tool: the parser's own format, around each function's JSON schema."""

import json
from collections.abc import Sequence
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
    names = " | ".join(f"call_{index}" for index in range(len(functions)))
    rules = [f"start: call{more}", f"call: {names}"]
    for index, function in enumerate(functions):
        head = json.dumps(f'{OPEN}\n{{"name": "{function["name"]}", "arguments": ')
        tail = json.dumps(f"}}\n{CLOSE}")
        schema = compact(function.get("parameters") or {"type": "object"})
        rules.append(f"call_{index}: {head} arguments_{index} {tail}")
        rules.append(f"arguments_{index}: %json {json.dumps(schema)}")
    return Grammar("lark", "\n".join(rules) + "\n")


def compact(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema`, written one way only (see COMPACT)."""
    return {**schema, "x-guidance": COMPACT}
