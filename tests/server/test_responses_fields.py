"""Every field that the official client can send to /v1/responses and /v1/audio/transcriptions has a row, and
every kind of item, part and tool is taken or refused by name."""

import typing

import pytest
from openai.types.audio import transcription_create_params as transcription
from openai.types.responses import (
    ResponseInputItemParam,
    ToolParam,
    easy_input_message_param,
    function_tool_param,
    response_create_params,
    response_format_text_json_schema_config_param,
    response_function_tool_call_param,
    response_input_audio_param,
    response_input_content_param,
    response_input_image_param,
    response_input_item_param,
    response_input_text_content_param,
    response_input_text_param,
    response_output_message_param,
    response_output_refusal_param,
    response_output_text_param,
    response_reasoning_item_param,
    response_text_config_param,
    tool_choice_allowed_param,
    tool_choice_function_param,
)

from server.schema import (
    message_fields,
    response_items,
    responses,
    responses_fields,
    transcriptions,
    transcriptions_fields,
)
from server.schema.field import Section
from server.schema.table import CHAT_SECTIONS
from server.schema.wire import Wire
from tests.server.fakes import Bench
from tests.server.test_responses import body, refused

PUBLISHED = [
    (response_create_params.ResponseCreateParamsStreaming, responses_fields.RESPONSE),
    (response_create_params.ResponseCreateParamsNonStreaming, responses_fields.RESPONSE),
    (response_create_params.StreamOptions, responses_fields.RESPONSE_STREAM_OPTIONS),
    (response_text_config_param.ResponseTextConfigParam, responses_fields.TEXT),
    (
        response_format_text_json_schema_config_param.ResponseFormatTextJSONSchemaConfigParam,
        responses_fields.TEXT_FORMAT,
    ),
    (easy_input_message_param.EasyInputMessageParam, responses_fields.INPUT_MESSAGE),
    (easy_input_message_param.EasyInputMessageParam, responses_fields.OUTPUT_MESSAGE),
    (response_input_item_param.Message, responses_fields.INPUT_MESSAGE),
    (response_output_message_param.ResponseOutputMessageParam, responses_fields.OUTPUT_MESSAGE),
    (response_input_text_param.ResponseInputTextParam, responses_fields.INPUT_TEXT),
    (response_input_text_content_param.ResponseInputTextContentParam, responses_fields.INPUT_TEXT),
    (response_input_image_param.ResponseInputImageParam, responses_fields.INPUT_IMAGE),
    (response_input_audio_param.ResponseInputAudioParam, responses_fields.INPUT_AUDIO),
    (response_input_audio_param.InputAudio, responses_fields.SOUND),
    (response_output_text_param.ResponseOutputTextParam, responses_fields.OUTPUT_TEXT),
    (response_output_refusal_param.ResponseOutputRefusalParam, message_fields.REFUSAL_PART),
    (response_function_tool_call_param.ResponseFunctionToolCallParam, responses_fields.FUNCTION_CALL),
    (response_input_item_param.FunctionCallOutput, responses_fields.FUNCTION_OUTPUT),
    (response_reasoning_item_param.ResponseReasoningItemParam, responses_fields.REASONING_ITEM),
    (response_reasoning_item_param.Content, responses_fields.REASONING_TEXT),
    (function_tool_param.FunctionToolParam, responses_fields.RESPONSE_TOOL),
    (tool_choice_function_param.ToolChoiceFunctionParam, responses_fields.RESPONSE_NAMED_TOOL),
    (tool_choice_allowed_param.ToolChoiceAllowedParam, responses_fields.RESPONSE_ALLOWED_TOOLS),
    (transcription.TranscriptionCreateParamsStreaming, transcriptions_fields.TRANSCRIPTION),
    (transcription.TranscriptionCreateParamsNonStreaming, transcriptions_fields.TRANSCRIPTION),
]
SECTIONS = (*responses_fields.SECTIONS, *transcriptions_fields.SECTIONS)


@pytest.mark.parametrize(
    ("published", "section"), PUBLISHED, ids=lambda value: getattr(value, "__name__", None)
)
def test_no_published_field_is_forgotten(published: type, section: Section) -> None:
    names = set(typing.get_type_hints(published))
    assert names
    assert names - {field.name for field in section.fields} == set()
    assert {field.name for field in section.fields if field.extension} & names == set()


def wire_types() -> list[type[Wire]]:
    found = {
        value
        for module in (responses, response_items, transcriptions)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Wire) and value.__module__ == module.__name__
    }
    return sorted(found, key=lambda wire: wire.__name__)


@pytest.mark.parametrize("wire", wire_types(), ids=lambda wire: wire.__name__)
def test_wire_types_hold_exactly_what_the_table_honours_or_ignores(wire: type[Wire]) -> None:
    names = {info.alias or name for name, info in wire.model_fields.items()}
    assert names == wire.section.names("honoured", "harmless")


def test_every_section_belongs_to_a_wire_type() -> None:
    assert {wire.section.title for wire in wire_types()} == {section.title for section in SECTIONS}
    titles = [section.title for section in (*CHAT_SECTIONS, *SECTIONS)]
    assert len(set(titles)) == len(titles)


def test_every_row_says_why_it_is_not_honoured() -> None:
    for section in SECTIONS:
        assert len({field.name for field in section.fields}) == len(section.fields)
        for field in section.fields:
            assert field.note or field.status == "honoured", (section.title, field.name)


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


@pytest.mark.parametrize("tool", sorted(TOOLS - {"function"}))
def test_every_other_tool_is_refused_by_name(tool: str) -> None:
    error = refused(Bench(), body(tools=[{"type": tool, "name": "x", "defer_loading": True}]))
    assert (error["param"], error["code"]) == ("tools[0].type", "unsupported_parameter")
    assert f"`{tool}`" in error["message"]


@pytest.mark.parametrize("choice", sorted(CHOICES - {"function", "allowed_tools"}))
def test_every_other_tool_choice_is_refused_by_name(choice: str) -> None:
    error = refused(Bench(), body(tool_choice={"type": choice}))
    assert error["param"] == "tool_choice.type"
    assert f"`{choice}`" in error["message"]
