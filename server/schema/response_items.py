"""Wire types of the items in a response's `input`, and of the parts in them."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag

from server.schema import responses_fields as fields
from server.schema.chat import MAX_PARTS, RefusalPart
from server.schema.wire import NO_SUCH, Wire, only, told_apart_by

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
    annotations: list[Any] | None = Field(None, max_length=MAX_PARTS)
    logprobs: list[Any] | None = None
    parsed: Any = None


UserPart = Annotated[
    Annotated[InputText, Tag("<input_text>")]
    | Annotated[InputImage, Tag("<input_image>")]
    | Annotated[InputAudio, Tag("<input_audio>")],
    told_apart_by("type", "input_text, input_image or input_audio"),
    only("input_text", "input_image", "input_audio"),
]
AssistantPart = Annotated[
    Annotated[OutputText, Tag("<output_text>")]
    | Annotated[RefusalPart, Tag("<refusal>")]
    | Annotated[InputText, Tag("<input_text>")],
    told_apart_by("type", "output_text, refusal or input_text"),
    only("output_text", "refusal", "input_text"),
]
TextPart = Annotated[InputText, only("input_text")]


def text_or(tag: str) -> Callable[[Any], str]:
    return lambda value: f"<{tag}>" if isinstance(value, list) else "<text>"


_LENGTH = Field(min_length=1, max_length=MAX_PARTS)
UserContent = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[UserPart], Tag("<parts>"), _LENGTH],
    Discriminator(text_or("parts")),
]
TextContent = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[TextPart], Tag("<parts>"), _LENGTH],
    Discriminator(text_or("parts")),
]
AssistantContent = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[AssistantPart], Tag("<parts>"), Field(max_length=MAX_PARTS)],
    Discriminator(text_or("parts")),
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
    name: str
    namespace: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    arguments: str
    parsed_arguments: Any = None
    id: Id | None = None
    status: Status | None = None


class FunctionOutput(Wire):
    section = fields.FUNCTION_OUTPUT
    type: Literal["function_call_output"]
    call_id: CallId
    output: TextContent
    name: str | None = None
    namespace: str | None = None
    id: Id | None = None
    status: Status | None = None


class ReasoningText(Wire):
    section = fields.REASONING_TEXT
    type: Literal["reasoning_text"]
    text: str


class ReasoningItem(Wire):
    section = fields.REASONING_ITEM
    type: Literal["reasoning"]
    content: list[ReasoningText] | None = Field(None, max_length=MAX_PARTS)
    summary: list[Any] | None = Field(None, max_length=MAX_PARTS)
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
        custom_error_type=f"{NO_SUCH}role",
        custom_error_message="`role` must be one of user, assistant, system or developer.",
    ),
    only("message", "function_call", "function_call_output", "reasoning"),
]
