"""Every field that the official client can send has a row in the table, and the wire types agree with the
table."""

import typing

import pytest
from openai.types import completion_create_params as completion_params
from openai.types.chat import (
    chat_completion_allowed_tool_choice_param as allowed_choice,
)
from openai.types.chat import (
    chat_completion_allowed_tools_param as allowed,
)
from openai.types.chat import (
    chat_completion_assistant_message_param as assistant,
)
from openai.types.chat import (
    chat_completion_content_part_image_param as image,
)
from openai.types.chat import (
    chat_completion_content_part_input_audio_param as audio,
)
from openai.types.chat import (
    chat_completion_content_part_refusal_param as refusal,
)
from openai.types.chat import (
    chat_completion_content_part_text_param as text,
)
from openai.types.chat import (
    chat_completion_developer_message_param as developer,
)
from openai.types.chat import (
    chat_completion_function_tool_param as tool,
)
from openai.types.chat import (
    chat_completion_message_function_tool_call_param as tool_call,
)
from openai.types.chat import (
    chat_completion_named_tool_choice_param as named_choice,
)
from openai.types.chat import (
    chat_completion_stream_options_param as stream_options,
)
from openai.types.chat import (
    chat_completion_system_message_param as system,
)
from openai.types.chat import (
    chat_completion_tool_message_param as tool_message,
)
from openai.types.chat import (
    chat_completion_user_message_param as user,
)
from openai.types.chat import (
    completion_create_params as chat_params,
)
from openai.types.shared_params import function_definition, response_format_json_schema

from server.schema import (
    chat,
    completions,
    format_fields,
    message_fields,
    request_fields,
    tokenize,
    tool_fields,
)
from server.schema.field import Section
from server.schema.sampling import StreamOptions
from server.schema.table import CHAT_SECTIONS
from server.schema.wire import Wire

PUBLISHED = [
    (chat_params.CompletionCreateParamsStreaming, request_fields.CHAT),
    (chat_params.CompletionCreateParamsNonStreaming, request_fields.CHAT),
    (completion_params.CompletionCreateParamsStreaming, request_fields.COMPLETION),
    (completion_params.CompletionCreateParamsNonStreaming, request_fields.COMPLETION),
    (stream_options.ChatCompletionStreamOptionsParam, request_fields.STREAM_OPTIONS),
    (system.ChatCompletionSystemMessageParam, message_fields.SYSTEM_MESSAGE),
    (developer.ChatCompletionDeveloperMessageParam, message_fields.SYSTEM_MESSAGE),
    (user.ChatCompletionUserMessageParam, message_fields.USER_MESSAGE),
    (assistant.ChatCompletionAssistantMessageParam, message_fields.ASSISTANT_MESSAGE),
    (tool_message.ChatCompletionToolMessageParam, message_fields.TOOL_MESSAGE),
    (text.ChatCompletionContentPartTextParam, message_fields.TEXT_PART),
    (refusal.ChatCompletionContentPartRefusalParam, message_fields.REFUSAL_PART),
    (image.ChatCompletionContentPartImageParam, message_fields.IMAGE_PART),
    (image.ImageURL, message_fields.IMAGE_URL),
    (audio.ChatCompletionContentPartInputAudioParam, message_fields.INPUT_AUDIO_PART),
    (audio.InputAudio, message_fields.INPUT_AUDIO),
    (tool.ChatCompletionFunctionToolParam, tool_fields.TOOL),
    (function_definition.FunctionDefinition, tool_fields.FUNCTION),
    (tool_call.ChatCompletionMessageFunctionToolCallParam, tool_fields.TOOL_CALL),
    (tool_call.Function, tool_fields.CALLED_FUNCTION),
    (named_choice.ChatCompletionNamedToolChoiceParam, tool_fields.NAMED_TOOL_CHOICE),
    (named_choice.Function, tool_fields.NAMED_FUNCTION),
    (allowed_choice.ChatCompletionAllowedToolChoiceParam, tool_fields.ALLOWED_TOOLS_CHOICE),
    (allowed.ChatCompletionAllowedToolsParam, tool_fields.ALLOWED_TOOLS),
    (response_format_json_schema.ResponseFormatJSONSchema, format_fields.RESPONSE_FORMAT),
    (response_format_json_schema.JSONSchema, format_fields.JSON_SCHEMA),
]

REFUSED_PART_TYPES = {"file"}
REFUSED_ROLES = {"function"}


@pytest.mark.parametrize(
    ("published", "section"), PUBLISHED, ids=lambda value: getattr(value, "__name__", None)
)
def test_no_published_field_is_forgotten(published: type, section: Section) -> None:
    names = set(typing.get_type_hints(published))
    assert names - {field.name for field in section.fields} == set()
    extensions = {field.name for field in section.fields if field.extension}
    assert extensions & names == set(), "a published field is no extension"


def all_wire_models() -> list[type[Wire]]:
    models = [value for module in (chat, completions, tokenize) for value in vars(module).values()]
    wire = {
        value
        for value in models
        if isinstance(value, type) and issubclass(value, Wire) and hasattr(value, "section")
    }
    return sorted({*wire, StreamOptions}, key=lambda model: model.__name__)


@pytest.mark.parametrize("model", all_wire_models(), ids=lambda model: model.__name__)
def test_wire_types_hold_exactly_what_the_table_honours_or_ignores(model: type[Wire]) -> None:
    names = {info.alias or name for name, info in model.model_fields.items()}
    assert names == model.section.names("honoured", "harmless")


def test_every_section_belongs_to_a_wire_type() -> None:
    assert {model.section.title for model in all_wire_models()} == {
        section.title for section in CHAT_SECTIONS
    }


def test_every_published_part_and_role_is_known_or_refused() -> None:
    from openai.types.chat.chat_completion_content_part_param import ChatCompletionContentPartParam
    from openai.types.chat.chat_completion_message_param import ChatCompletionMessageParam

    def literals(union: object, key: str) -> set[str]:
        hints = [typing.get_type_hints(member)[key] for member in typing.get_args(union)]
        return {value for hint in hints for value in typing.get_args(hint)}

    known_parts = {"text", "image_url", "input_audio"}
    known_roles = {"system", "developer", "user", "assistant", "tool"}
    assert literals(ChatCompletionContentPartParam, "type") == known_parts | REFUSED_PART_TYPES
    assert literals(ChatCompletionMessageParam, "role") == known_roles | REFUSED_ROLES


def test_every_row_says_why_it_is_not_honoured() -> None:
    for section in CHAT_SECTIONS:
        assert len({field.name for field in section.fields}) == len(section.fields)
        for field in section.fields:
            assert field.note or field.status == "honoured", (section.title, field.name)
