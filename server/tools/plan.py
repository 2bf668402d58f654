"""What a request's `tools` and `tool_choice` come to: the functions that the model is shown, and the grammar
that binds its calls."""

from typing import Any, NamedTuple

from engine.messages import Grammar
from server.errors import BadRequest
from server.schema.chat import AllowedToolsChoice, NamedToolChoice, Tool, ToolChoice
from server.tools.form import TAGGED
from server.tools.grammar import calls_or_answer, forced_call, strict_calls
from server.validated import ModelFacts


class ToolPlan(NamedTuple):
    """offered: the function objects that the model is shown. grammar: what binds the answer; None where
    nothing does. lazy: it binds only the form of calls. or_answer: calls or a structured answer. of_tools:
    it comes from the tools alone."""

    offered: list[dict[str, Any]]
    grammar: Grammar | None
    single_call: bool
    lazy: bool = False
    or_answer: bool = False
    of_tools: bool = False

    @property
    def rendered(self) -> list[dict[str, Any]] | None:
        """As the chat template takes them."""
        return _wrapped(self.offered)


def plan_tools(
    tools: list[Tool] | None,
    choice: ToolChoice | None,
    parallel: bool,
    facts: ModelFacts,
    answer: Grammar | None = None,
) -> ToolPlan:
    """BadRequest where tools, choice and model do not fit. parallel: more than one call is allowed. answer:
    the JSON that an answer without calls must be."""
    offered, forced = _offered_tools(tools, choice, facts)
    single = not parallel or isinstance(forced, str)
    if not offered:
        return ToolPlan(offered, answer, single)
    form = facts.call_form or TAGGED
    if forced:
        functions = [function for function in offered if forced is True or function["name"] == forced]
        grammar = forced_call(functions, not single, facts.tag_ids, form)
        return ToolPlan(offered, grammar, single, of_tools=True)
    names = {function["name"] for function in offered}
    strict = any(tool.function.strict and tool.function.name in names for tool in tools or ())
    if facts.call_form is None and (strict or answer is not None):
        raise _unenforceable("`strict`" if strict else "a structured answer beside tools")
    if answer is not None:
        grammar = calls_or_answer(offered, parallel, answer, facts.tag_ids, form.beside_answers)
        return ToolPlan(offered, grammar, single, or_answer=True)
    if strict:
        grammar = strict_calls(offered, facts.tag_ids, form)
        return ToolPlan(offered, grammar, single, lazy=True, of_tools=True)
    return ToolPlan(offered, None, single)


def _unenforceable(what: str) -> BadRequest:
    return BadRequest(
        f"This model writes calls in a form for which {what} can't be enforced; leave it out, or force a "
        "call with tool_choice.",
        param="tools",
        code="unsupported_parameter",
    )


def _offered_tools(
    tools: list[Tool] | None, choice: ToolChoice | None, facts: ModelFacts
) -> tuple[list[dict[str, Any]], bool | str]:
    """The functions that the model may call, and whether it must: False, True (any of them), or one's
    name."""
    functions = [_function(tool) for tool in tools or ()]
    names = [function["name"] for function in functions]
    if len(set(names)) != len(names):
        raise BadRequest("Two tools have the same name.", param="tools")
    if functions and not facts.supports_tools:
        raise BadRequest(
            "This model's chat template has no place for tools.", param="tools", code="unsupported_parameter"
        )
    if not functions:
        if choice not in (None, "none", "auto"):
            raise BadRequest("tool_choice needs tools.", param="tool_choice")
        return [], False
    if isinstance(choice, AllowedToolsChoice):
        allowed = {_known(tool, names) for tool in choice.allowed_tools.tools}
        return [f for f in functions if f["name"] in allowed], choice.allowed_tools.mode == "required"
    if isinstance(choice, NamedToolChoice):
        return functions, _known(choice, names)
    return ([] if choice == "none" else functions), choice == "required"


def _known(choice: NamedToolChoice, names: list[str]) -> str:
    if choice.function.name not in names:
        raise BadRequest(
            f"tool_choice names `{choice.function.name}`, which is not among tools.", param="tool_choice"
        )
    return choice.function.name


def _function(tool: Tool) -> dict[str, Any]:
    function = tool.function
    fields = {"name": function.name, "description": function.description, "parameters": function.parameters}
    return {name: value for name, value in fields.items() if value is not None}


def rendered_tools(tools: list[Tool] | None) -> list[dict[str, Any]] | None:
    """Tools as the chat template takes them."""
    return _wrapped([_function(tool) for tool in tools or ()])


def _wrapped(functions: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    return [{"type": "function", "function": function} for function in functions] or None
