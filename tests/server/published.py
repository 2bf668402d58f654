"""The official client's request types, and the sections of the table that answer for them."""

from openai.types import completion_create_params as completion_params
from openai.types.audio import transcription_create_params as transcription
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
from openai.types.responses import (
    easy_input_message_param,
    function_tool_param,
    response_create_params,
    response_format_text_json_schema_config_param,
    response_function_tool_call_param,
    response_input_audio_param,
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
from openai.types.shared_params import function_definition, reasoning, response_format_json_schema

from server.schema import (
    format_fields,
    message_fields,
    request_fields,
    responses_fields,
    tool_fields,
    transcriptions_fields,
)
from server.schema.field import Section

CHAT: list[tuple[type, Section]] = [
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

RESPONSES: list[tuple[type, Section]] = [
    (response_create_params.ResponseCreateParamsStreaming, responses_fields.RESPONSE),
    (response_create_params.ResponseCreateParamsNonStreaming, responses_fields.RESPONSE),
    (response_create_params.StreamOptions, responses_fields.RESPONSE_STREAM_OPTIONS),
    (reasoning.Reasoning, responses_fields.REASONING),
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

PUBLISHED = [*CHAT, *RESPONSES]
