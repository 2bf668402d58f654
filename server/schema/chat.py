"""Wire types of POST /v1/chat/completions. Types and ranges only; what they mean together is
`server.validate`'s."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag

from server.schema import format_fields, message_fields, request_fields, tool_fields
from server.schema.hints import Hints
from server.schema.sampling import Effort, SamplingFields
from server.schema.wire import Wire, only, told_apart_by

Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
"""A function's or schema's name, as published."""


MAX_PARTS = 4096
"""Parts of one message, its calls, and messages of one request."""


class TextPart(Wire):
    section = message_fields.TEXT_PART
    type: Literal["text"]
    text: str
    prompt_cache_breakpoint: dict[str, Any] | None = None


class RefusalPart(Wire):
    section = message_fields.REFUSAL_PART
    type: Literal["refusal"]
    refusal: str


MediaUuid = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,256}$")]


class ImageUrl(Wire):
    section = message_fields.IMAGE_URL
    url: str | None = None
    detail: Literal["auto", "low", "high", "original"] = "auto"


class ImagePart(Wire):
    section = message_fields.IMAGE_PART
    type: Literal["image_url"]
    image_url: ImageUrl | None = None
    prompt_cache_breakpoint: dict[str, Any] | None = None
    uuid: MediaUuid | None = None


class InputAudio(Wire):
    section = message_fields.INPUT_AUDIO
    data: str | None = None
    format: Literal["wav", "mp3"]


class InputAudioPart(Wire):
    section = message_fields.INPUT_AUDIO_PART
    type: Literal["input_audio"]
    input_audio: InputAudio | None = None
    prompt_cache_breakpoint: dict[str, Any] | None = None
    uuid: MediaUuid | None = None


class AudioUrl(Wire):
    section = message_fields.AUDIO_URL
    url: str | None = None


class AudioUrlPart(Wire):
    section = message_fields.AUDIO_URL_PART
    type: Literal["audio_url"]
    audio_url: AudioUrl | None = None
    uuid: MediaUuid | None = None


UserPart = Annotated[
    Annotated[TextPart, Tag("<text>")]
    | Annotated[ImagePart, Tag("<image_url>")]
    | Annotated[InputAudioPart, Tag("<input_audio>")]
    | Annotated[AudioUrlPart, Tag("<audio_url>")],
    told_apart_by("type", "text, image_url, input_audio or audio_url"),
]
AssistantPart = Annotated[
    Annotated[TextPart, Tag("<text>")] | Annotated[RefusalPart, Tag("<refusal>")],
    told_apart_by("type", "text or refusal"),
]


def _is_text(content: Any) -> str:
    return "<parts>" if isinstance(content, list) else "<text>"


_Text = Annotated[str, Tag("<text>")]
_Length = Field(min_length=1, max_length=MAX_PARTS)
UserContent = Annotated[_Text | Annotated[list[UserPart], Tag("<parts>"), _Length], Discriminator(_is_text)]
TextContent = Annotated[_Text | Annotated[list[TextPart], Tag("<parts>"), _Length], Discriminator(_is_text)]
AssistantContent = Annotated[
    _Text | Annotated[list[AssistantPart], Tag("<parts>"), _Length], Discriminator(_is_text)
]


class CalledFunction(Wire):
    section = tool_fields.CALLED_FUNCTION
    name: str
    arguments: str
    parsed_arguments: Any = None


class ToolCall(Wire):
    section = tool_fields.TOOL_CALL
    id: str
    type: Literal["function"]
    function: CalledFunction
    index: int | None = None


class SystemMessage(Wire):
    section = message_fields.SYSTEM_MESSAGE
    role: Literal["system", "developer"]
    content: TextContent
    name: str | None = None


class UserMessage(Wire):
    section = message_fields.USER_MESSAGE
    role: Literal["user"]
    content: UserContent
    name: str | None = None


class AssistantMessage(Wire):
    section = message_fields.ASSISTANT_MESSAGE
    role: Literal["assistant"]
    content: AssistantContent | None = None
    tool_calls: list[ToolCall] | None = Field(None, max_length=MAX_PARTS)
    refusal: str | None = None
    reasoning_content: str | None = None
    annotations: list[Any] | None = Field(None, max_length=MAX_PARTS)
    parsed: Any = None
    name: str | None = None


class ToolMessage(Wire):
    section = message_fields.TOOL_MESSAGE
    role: Literal["tool"]
    content: TextContent
    tool_call_id: str = Field(min_length=1, max_length=256)
    name: str | None = None


Message = Annotated[
    Annotated[SystemMessage, Tag("<system>")]
    | Annotated[SystemMessage, Tag("<developer>")]
    | Annotated[UserMessage, Tag("<user>")]
    | Annotated[AssistantMessage, Tag("<assistant>")]
    | Annotated[ToolMessage, Tag("<tool>")],
    told_apart_by("role", "system, developer, user, assistant or tool"),
]


class Function(Wire):
    section = tool_fields.FUNCTION
    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Wire):
    section = tool_fields.TOOL
    type: Literal["function"]
    function: Function


class NamedFunction(Wire):
    section = tool_fields.NAMED_FUNCTION
    name: Name


class NamedToolChoice(Wire):
    section = tool_fields.NAMED_TOOL_CHOICE
    type: Literal["function"]
    function: NamedFunction


class AllowedTools(Wire):
    section = tool_fields.ALLOWED_TOOLS
    mode: Literal["auto", "required"]
    tools: list[NamedToolChoice] = Field(min_length=1, max_length=128)


class AllowedToolsChoice(Wire):
    section = tool_fields.ALLOWED_TOOLS_CHOICE
    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


def tool_choice_form(choice: Any) -> str:
    if not isinstance(choice, dict):
        return "<mode>"
    return "<allowed>" if choice.get("type") == "allowed_tools" else "<named>"


ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("<mode>")]
    | Annotated[NamedToolChoice, Tag("<named>")]
    | Annotated[AllowedToolsChoice, Tag("<allowed>")],
    Discriminator(tool_choice_form),
    only("function", "allowed_tools"),
]


class JsonSchema(Wire):
    section = format_fields.JSON_SCHEMA
    name: Name
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(Wire):
    section = format_fields.RESPONSE_FORMAT
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StructuredOutputs(Wire):
    section = format_fields.STRUCTURED_OUTPUTS
    regex: str | None = Field(None, min_length=1)
    choice: list[Annotated[str, StringConstraints(min_length=1)]] | None = Field(
        None, min_length=1, max_length=1024
    )
    grammar: str | None = Field(None, min_length=1)


class ChatRequest(SamplingFields, Hints):
    section = request_fields.CHAT
    model: str
    messages: list[Message] = Field(min_length=1, max_length=MAX_PARTS)
    max_completion_tokens: int | None = Field(None, ge=1)
    max_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    tools: list[Tool] | None = Field(None, max_length=128)
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    prediction: dict[str, Any] | None = None
    reasoning_effort: Effort | None = None
    chat_template_kwargs: dict[str, Any] | None = Field(None, max_length=32)
