"""Wire types of POST /v1/responses. Types and ranges only; what they mean together is `server.responses`'."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, StringConstraints, Tag
from pydantic_core import PydanticCustomError

from server.schema import responses_fields as fields
from server.schema.chat import Name, RefusalPart
from server.schema.sampling import CacheSalt
from server.schema.wire import Wire, told_apart_by


def _only(*types: str) -> BeforeValidator:
    """Refuses an object of any other `type` in so many words, before its other fields are looked at."""

    def check(value: Any) -> Any:
        kind = value.get("type") if isinstance(value, dict) else None
        if isinstance(kind, str) and kind not in types:
            reason = f"Not supported: `{kind[:50]}`; what is supported here is {', '.join(types)}."
            raise PydanticCustomError(
                "unsupported_parameter", "{reason}", {"field": "type", "reason": reason}
            )
        return value

    return BeforeValidator(check)


CallId = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Id = Annotated[str, StringConstraints(max_length=256)]
Status = Literal["in_progress", "completed", "incomplete"]
Phase = Literal["commentary", "final_answer"]


class InputText(Wire):
    section = fields.INPUT_TEXT
    type: Literal["input_text"]
    text: str
    prompt_cache_breakpoint: dict[str, Any] | None = None


class InputImage(Wire):
    section = fields.INPUT_IMAGE
    type: Literal["input_image"]
    image_url: str
    detail: Literal["auto", "low", "high", "original"] = "auto"
    prompt_cache_breakpoint: dict[str, Any] | None = None


class Sound(Wire):
    section = fields.SOUND
    data: str
    format: Literal["wav", "mp3"]


class InputAudio(Wire):
    section = fields.INPUT_AUDIO
    type: Literal["input_audio"]
    input_audio: Sound


class OutputText(Wire):
    section = fields.OUTPUT_TEXT
    type: Literal["output_text"]
    text: str
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None


UserPart = Annotated[
    Annotated[InputText, Tag("<input_text>")]
    | Annotated[InputImage, Tag("<input_image>")]
    | Annotated[InputAudio, Tag("<input_audio>")],
    told_apart_by("type", "input_text, input_image or input_audio"),
    _only("input_text", "input_image", "input_audio"),
]
AssistantPart = Annotated[
    Annotated[OutputText, Tag("<output_text>")]
    | Annotated[RefusalPart, Tag("<refusal>")]
    | Annotated[InputText, Tag("<input_text>")],
    told_apart_by("type", "output_text, refusal or input_text"),
    _only("output_text", "refusal", "input_text"),
]
TextPart = Annotated[InputText, _only("input_text")]


def _text_or(tag: str) -> Callable[[Any], str]:
    return lambda value: f"<{tag}>" if isinstance(value, list) else "<text>"


UserContent = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[UserPart], Tag("<parts>"), Field(min_length=1)],
    Discriminator(_text_or("parts")),
]
TextContent = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[TextPart], Tag("<parts>"), Field(min_length=1)],
    Discriminator(_text_or("parts")),
]
AssistantContent = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[AssistantPart], Tag("<parts>")],
    Discriminator(_text_or("parts")),
]


class InputMessage(Wire):
    section = fields.INPUT_MESSAGE
    role: Literal["user"]
    content: UserContent
    type: Literal["message"] = "message"
    id: Id | None = None
    status: Status | None = None
    phase: Phase | None = None


class InstructionMessage(Wire):
    section = fields.INPUT_MESSAGE
    role: Literal["system", "developer"]
    content: TextContent
    type: Literal["message"] = "message"
    id: Id | None = None
    status: Status | None = None
    phase: Phase | None = None


class OutputMessage(Wire):
    section = fields.OUTPUT_MESSAGE
    role: Literal["assistant"]
    content: AssistantContent
    type: Literal["message"] = "message"
    id: Id | None = None
    status: Status | None = None
    phase: Phase | None = None


class FunctionCall(Wire):
    section = fields.FUNCTION_CALL
    type: Literal["function_call"]
    call_id: CallId
    name: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    arguments: str
    id: Id | None = None
    status: Status | None = None


class FunctionOutput(Wire):
    section = fields.FUNCTION_OUTPUT
    type: Literal["function_call_output"]
    call_id: CallId
    output: TextContent
    name: str | None = None
    id: Id | None = None
    status: Status | None = None


class ReasoningText(Wire):
    section = fields.REASONING_TEXT
    type: Literal["reasoning_text"]
    text: str


class ReasoningItem(Wire):
    section = fields.REASONING_ITEM
    type: Literal["reasoning"]
    content: list[ReasoningText] | None = None
    summary: list[Any] | None = None
    encrypted_content: str | None = None
    id: Id | None = None
    status: Status | None = None


def _item_form(item: Any) -> str | None:
    if not isinstance(item, dict):
        return None
    kind = item.get("type") or "message"
    return f"<{item.get('role')}>" if kind == "message" else f"<{kind}>"


InputItem = Annotated[
    Annotated[InputMessage, Tag("<user>")]
    | Annotated[InstructionMessage, Tag("<system>")]
    | Annotated[InstructionMessage, Tag("<developer>")]
    | Annotated[OutputMessage, Tag("<assistant>")]
    | Annotated[FunctionCall, Tag("<function_call>")]
    | Annotated[FunctionOutput, Tag("<function_call_output>")]
    | Annotated[ReasoningItem, Tag("<reasoning>")],
    Discriminator(
        _item_form,
        custom_error_type="unknown_variant",
        custom_error_message="`role` must be one of user, assistant, system or developer.",
    ),
    _only("message", "function_call", "function_call_output", "reasoning"),
]


class FunctionTool(Wire):
    section = fields.RESPONSE_TOOL
    type: Literal["function"]
    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    output_schema: dict[str, Any] | None = None


class NamedTool(Wire):
    section = fields.RESPONSE_NAMED_TOOL
    type: Literal["function"]
    name: Name


class AllowedTools(Wire):
    section = fields.RESPONSE_ALLOWED_TOOLS
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: list[NamedTool] = Field(min_length=1, max_length=128)


def _tool_choice_form(choice: Any) -> str:
    if not isinstance(choice, dict):
        return "<mode>"
    return "<allowed>" if choice.get("type") == "allowed_tools" else "<named>"


ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("<mode>")]
    | Annotated[NamedTool, Tag("<named>")]
    | Annotated[AllowedTools, Tag("<allowed>")],
    Discriminator(_tool_choice_form),
    _only("function", "allowed_tools"),
]


class TextFormat(Wire):
    section = fields.TEXT_FORMAT
    type: Literal["text", "json_object", "json_schema"]
    name: Name | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    description: str | None = None
    strict: bool | None = None


class TextOptions(Wire):
    section = fields.TEXT
    format: TextFormat | None = None


class ResponseStreamOptions(Wire):
    section = fields.RESPONSE_STREAM_OPTIONS
    include_obfuscation: bool | None = None


Includable = Literal[
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
]


class ResponseRequest(Wire):
    section = fields.RESPONSE
    model: str
    input: Annotated[
        Annotated[str, Tag("<text>")]
        | Annotated[list[InputItem], Tag("<items>"), Field(min_length=1, max_length=4096)],
        Discriminator(_text_or("items")),
    ]
    instructions: str | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    stream: bool = False
    stream_options: ResponseStreamOptions | None = None
    text: TextOptions | None = None
    tools: list[Annotated[FunctionTool, _only("function")]] | None = Field(None, max_length=128)
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool = True
    top_logprobs: int = Field(0, ge=0, le=20)
    include: list[Includable] | None = Field(None, max_length=64)
    metadata: (
        dict[
            Annotated[str, StringConstraints(max_length=64)],
            Annotated[str, StringConstraints(max_length=512)],
        ]
        | None
    ) = Field(None, max_length=16)
    reasoning: dict[str, Any] | None = Field(None, max_length=16)
    user: str | None = Field(None, max_length=4096)
    safety_identifier: str | None = Field(None, max_length=64)
    prompt_cache_key: str | None = Field(None, max_length=1024)
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: Literal["in_memory", "in-memory", "24h"] | None = None
    max_tool_calls: int | None = Field(None, ge=1)
    seed: int | None = Field(None, ge=-(2**63), le=2**63 - 1)
    top_k: int = Field(0, ge=-1, le=2**31 - 1)
    cache_salt: CacheSalt | None = None
    chat_template_kwargs: dict[str, Any] | None = Field(None, max_length=32)
