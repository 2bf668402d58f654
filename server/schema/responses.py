"""Wire types of POST /v1/responses. Types and ranges only; what they mean together is `server.responses`'."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from server.schema import responses_fields as fields
from server.schema.chat import MAX_PARTS, Name, tool_choice_form
from server.schema.hints import Hints
from server.schema.response_items import InputItem, text_or
from server.schema.sampling import CacheSalt, Effort
from server.schema.wire import Wire, only, told_apart_by


class FunctionTool(Wire):
    section = fields.RESPONSE_TOOL
    type: Literal["function"]
    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    output_schema: dict[str, Any] | None = None


class NamespaceTool(Wire):
    section = fields.RESPONSE_NAMESPACE
    type: Literal["namespace"]
    name: Name
    description: str | None = None
    tools: list[Annotated[FunctionTool, only("function")]] = Field(min_length=1, max_length=128)


ResponseTool = Annotated[
    Annotated[FunctionTool, Tag("<function>")] | Annotated[NamespaceTool, Tag("<namespace>")],
    told_apart_by("type", "function or namespace"),
    only("function", "namespace"),
]


class NamedTool(Wire):
    section = fields.RESPONSE_NAMED_TOOL
    type: Literal["function"]
    name: Name


class AllowedTools(Wire):
    section = fields.RESPONSE_ALLOWED_TOOLS
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: list[NamedTool] = Field(min_length=1, max_length=128)


ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("<mode>")]
    | Annotated[NamedTool, Tag("<named>")]
    | Annotated[AllowedTools, Tag("<allowed>")],
    Discriminator(tool_choice_form),
    only("function", "allowed_tools"),
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


class Reasoning(Wire):
    section = fields.REASONING
    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None


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


Limit = Annotated[int, Field(ge=1, le=2**63 - 1)]
"""It comes back: larger numbers could not be written."""


class ResponseRequest(Hints):
    section = fields.RESPONSE
    model: str
    input: Annotated[
        Annotated[str, Tag("<text>")]
        | Annotated[list[InputItem], Tag("<items>"), Field(min_length=1, max_length=MAX_PARTS)],
        Discriminator(text_or("items")),
    ]
    instructions: str | None = None
    max_output_tokens: Limit | None = None
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    stream: bool = False
    stream_options: ResponseStreamOptions | None = None
    text: TextOptions | None = None
    tools: list[ResponseTool] | None = Field(None, max_length=128)
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool = True
    top_logprobs: int = Field(0, ge=0, le=20)
    include: list[Includable] | None = Field(None, max_length=64)
    reasoning: Reasoning | None = None
    user: str | None = Field(None, max_length=4096)
    client_metadata: dict[str, Any] | None = Field(None, max_length=64)
    max_tool_calls: Limit | None = None
    seed: int | None = Field(None, ge=-(2**63), le=2**63 - 1)
    top_k: int = Field(0, ge=-1, le=2**31 - 1)
    cache_salt: CacheSalt | None = None
    chat_template_kwargs: dict[str, Any] | None = Field(None, max_length=32)
