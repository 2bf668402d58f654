"""Structured answers: from `response_format` and `structured_outputs` to a grammar, and the check that the
grammar can be enforced at all."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from engine.messages import Grammar
from server.errors import BadRequest
from server.grammar_trials import TOO_COSTLY, GrammarTrials
from server.schema.chat import ResponseFormat, StructuredOutputs
from server.tools.grammar import compact, parameters

MAX_GRAMMAR_CHARS = 256 << 10
OWN_GRAMMAR = "structured_outputs.grammar"
_PLACE = re.compile(r"^at \d+\(\d+\): (?:failed to compile JSON schema: )?|^ *\d+ \| .*", re.MULTILINE)
"""What a fault says of where in a grammar it is: its line and column, the lines around it, and a caret."""


def grammar_of(response_format: ResponseFormat | None) -> Grammar | None:
    """None where any text will do."""
    if response_format is None or response_format.type == "text":
        return None
    if response_format.type == "json_object":
        return Grammar("json_object")
    schema = response_format.json_schema
    if schema is None:
        raise BadRequest(
            "json_schema is missing.", param="response_format.json_schema", code="missing_required_parameter"
        )
    return Grammar("json_schema", json.dumps(compact(schema.schema_ if schema.schema_ is not None else {})))


def structured_grammar(wanted: StructuredOutputs) -> tuple[Grammar, str]:
    """The grammar of the one kind that is set, and its field."""
    given = {name: value for name, value in wanted if value is not None}
    if len(given) != 1:
        raise BadRequest(
            "structured_outputs takes exactly one of regex, choice and grammar.", param="structured_outputs"
        )
    if wanted.regex is not None:
        return Grammar("regex", wanted.regex), "structured_outputs.regex"
    if wanted.grammar is not None:
        return Grammar("lark", wanted.grammar), OWN_GRAMMAR
    choices = " | ".join(json.dumps(choice, ensure_ascii=False) for choice in wanted.choice or ())
    return Grammar("lark", f"start: {choices}\n"), "structured_outputs.choice"


async def check(
    trials: GrammarTrials, grammar: Grammar, param: str, tools: Sequence[Mapping[str, Any]] = ()
) -> None:
    """BadRequest if the grammar can't be enforced, with the name of the tool at fault. tools: those that the
    model is shown."""
    if len(grammar.definition) > MAX_GRAMMAR_CHARS:
        raise BadRequest(
            f"{param}: longer than {MAX_GRAMMAR_CHARS} characters.", param=param, code="invalid_grammar"
        )
    if grammar.kind == "json_object":
        return
    fault = await trials.fault(grammar)
    if fault:
        # Only whoever wrote the grammar knows its lines; the others gave a part of it.
        shown = fault if param == OWN_GRAMMAR else _PLACE.sub("", fault)
        reason = " ".join(shown.split()).removesuffix(" ^")[:300]
        culprit = await _culprit(trials, tools) if fault != TOO_COSTLY else ""
        place = "tools" if culprit else param
        raise BadRequest(
            f"{place}: {culprit}can't be enforced: {reason}", param=place, code="invalid_grammar"
        )


async def _culprit(trials: GrammarTrials, tools: Sequence[Mapping[str, Any]]) -> str:
    for tool in tools:
        function = tool["function"]
        if await trials.fault(Grammar("json_schema", json.dumps(parameters(function)))):
            return f"`{function['name']}` "
    return ""
