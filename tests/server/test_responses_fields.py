"""Every kind of item, part, tool and choice of /v1/responses is taken or refused by name."""

import typing

import pytest
from openai.types.responses import (
    ResponseInputItemParam,
    ToolParam,
    response_create_params,
    response_input_content_param,
)

from tests.server.fakes import Bench
from tests.server.test_responses import body, refused


def types_of(union: object) -> set[str]:
    """The values of `type` of a union's members, however deeply nested."""
    if "type" in getattr(union, "__annotations__", {}):
        return set(_literals(typing.get_type_hints(union)["type"]))
    return {name for member in typing.get_args(union) for name in types_of(member)}


def _literals(hint: object) -> list[str]:
    if isinstance(hint, str):
        return [hint]
    return [value for argument in typing.get_args(hint) for value in _literals(argument)]


ITEMS = types_of(ResponseInputItemParam)
TOOLS = types_of(ToolParam)
CHOICES = types_of(response_create_params.ToolChoice)
PARTS = types_of(response_input_content_param.ResponseInputContentParam)


def test_the_walk_finds_what_is_taken() -> None:
    assert {
        "message",
        "function_call",
        "function_call_output",
        "reasoning",
        "item_reference",
        "mcp_call",
    } < ITEMS
    assert {"function", "custom", "web_search", "mcp", "code_interpreter", "image_generation"} < TOOLS
    assert {"function", "allowed_tools", "mcp", "custom"} < CHOICES
    assert {"input_text", "input_image", "input_file"} == PARTS


@pytest.mark.parametrize(
    "item", sorted(ITEMS - {"message", "function_call", "function_call_output", "reasoning"})
)
def test_every_other_item_is_refused_by_name(item: str) -> None:
    error = refused(Bench(), body(input=[{"type": item, "id": "x", "call_id": "y"}]))
    assert error["param"] == "input[0].type"
    assert f"`{item}`" in error["message"]


@pytest.mark.parametrize("tool", sorted(TOOLS - {"function", "namespace"}))
def test_every_other_tool_is_refused_by_name(tool: str) -> None:
    error = refused(Bench(), body(tools=[{"type": tool, "name": "x", "defer_loading": True}]))
    assert (error["param"], error["code"]) == ("tools[0].type", "unsupported_parameter")
    assert f"`{tool}`" in error["message"]


@pytest.mark.parametrize("choice", sorted(CHOICES - {"function", "allowed_tools"}))
def test_every_other_tool_choice_is_refused_by_name(choice: str) -> None:
    error = refused(Bench(), body(tool_choice={"type": choice}))
    assert error["param"] == "tool_choice.type"
    assert f"`{choice}`" in error["message"]
