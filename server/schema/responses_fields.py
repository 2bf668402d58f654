"""The field table of POST /v1/responses, in the form of `server.schema.field`."""

from server.schema.field import Field, Section, sections_in
from server.schema.message_fields import PARSED
from server.schema.tool_fields import PARSED_ARGUMENTS

_CACHED = "every prompt is cached, for as long as memory lasts"
_BREAKPOINT = Field("prompt_cache_breakpoint", "harmless", _CACHED)
_STATUS = Field("status", "harmless", "an item is taken as it stands")
_ID = Field("id", "harmless", "nothing is stored, so an id finds nothing")
_PHASE = Field("phase", "harmless", "chat templates have no place for it")
_CALLER = Field("caller", "refused", "programs do not call tools here", ({"type": "direct"},))

RESPONSE = Section(
    "POST /v1/responses",
    (
        Field("model", "honoured", "one of the served names, exactly"),
        Field("input", "honoured", "a string, or items: messages, function calls, their outputs, reasoning"),
        Field("instructions", "honoured", "a system message before all others"),
        Field("max_output_tokens", "honoured", "at least 1; capped at what the context leaves"),
        Field("temperature", "honoured", "0 to 2, default 1; 0 takes the most likely token"),
        Field("top_p", "honoured", "above 0, at most 1; default 1"),
        Field("stream", "honoured", "the published events in their order; no `[DONE]` after the last"),
        Field("stream_options", "honoured", "needs `stream`"),
        Field("text", "honoured", "the answer's form"),
        Field(
            "tools",
            "honoured",
            "functions, alone or in namespaces; every built-in, MCP or custom tool is refused",
        ),
        Field("tool_choice", "honoured", "`none`, `auto`, `required`, a named function or `allowed_tools`"),
        Field("parallel_tool_calls", "honoured", "false: at most one call"),
        Field("top_logprobs", "honoured", "0 to 20; above 0 includes `message.output_text.logprobs`"),
        Field(
            "include",
            "honoured",
            "`message.output_text.logprobs`; the others add nothing: there are no built-in tools, "
            "and reasoning is text that needs no `encrypted_content`",
        ),
        Field("metadata", "honoured", "comes back in the response; not stored"),
        Field("reasoning", "honoured"),
        Field("user", "harmless", "comes back; tenants come from API keys"),
        Field("client_metadata", "harmless", "what an agent says of itself; not used", extension=True),
        Field("safety_identifier", "harmless", "comes back"),
        Field("prompt_cache_key", "harmless", "comes back; the cache finds prompts by content"),
        Field("prompt_cache_options", "harmless", _CACHED),
        Field("prompt_cache_retention", "harmless", _CACHED),
        Field("max_tool_calls", "harmless", "limits calls of built-in tools, of which there are none"),
        Field("store", "refused", "nothing is stored; absent means false here", (False,)),
        Field("previous_response_id", "refused", "nothing is stored: send the earlier items as `input`"),
        Field("conversation", "refused", "nothing is stored: send the earlier items as `input`"),
        Field("background", "refused", "nothing is stored, so an answer can't be fetched later", (False,)),
        Field("background_options", "refused", "there is no background work", ({},)),
        Field("prompt", "refused", "no prompt templates are stored: send `instructions` and `input`"),
        Field("truncation", "refused", "a prompt that does not fit is an error", ("disabled",)),
        Field("context_management", "refused", "a conversation is never compacted", ([],)),
        Field("service_tier", "refused", "there is one tier", ("auto", "default")),
        Field("moderation", "refused", "there is no moderation model"),
        Field("access_programs", "refused", "there are no access programs", ({},)),
        Field(
            "image",
            "refused",
            "pictures are never compressed",
            ({}, {"context_compression": "auto"}, {"context_compression": "disabled"}),
        ),
        Field("seed", "honoured", "as for chat", extension=True),
        Field("top_k", "honoured", "as for chat", extension=True),
        Field("cache_salt", "honoured", "as for chat", extension=True),
        Field("chat_template_kwargs", "honoured", "as for chat", extension=True),
    ),
)

RESPONSE_STREAM_OPTIONS = Section(
    "stream_options of a response", (Field("include_obfuscation", "harmless", "events are never padded"),)
)
REASONING = Section(
    "reasoning",
    (
        Field("effort", "honoured", "as `reasoning_effort` of chat"),
        Field("summary", "harmless", "comes back; thoughts are given whole, so nothing is summed up"),
        Field("generate_summary", "harmless", "deprecated name of `summary`"),
        Field("context", "refused", "which earlier thoughts count is for the chat template", ("auto",)),
        Field("mode", "refused", "there is one mode", ("standard",)),
    ),
)
TEXT = Section(
    "text",
    (
        Field("format", "honoured", "`text`, `json_object` or `json_schema`; with `tools` as for chat"),
        Field("verbosity", "refused", "open models have no such setting", ("medium",)),
    ),
)
TEXT_FORMAT = Section(
    "text.format",
    (
        Field("type", "honoured"),
        Field("name", "honoured", "needed with `json_schema`"),
        Field("schema", "honoured", "needed with `json_schema`; what can't be enforced is refused"),
        Field("description", "harmless", "not shown to the model"),
        Field("strict", "harmless", "the schema is enforced either way"),
    ),
)

INPUT_MESSAGE = Section(
    "user, system and developer messages of `input`",
    (
        Field("type", "honoured", "`message`, the default"),
        Field("role", "honoured"),
        Field("content", "honoured", "a string or parts; of system and developer messages text parts only"),
        _ID,
        _STATUS,
        _PHASE,
    ),
)
OUTPUT_MESSAGE = Section(
    "assistant messages of `input`",
    (
        Field("type", "honoured", "`message`, the default"),
        Field("role", "honoured"),
        Field("content", "honoured", "a string, or output_text, refusal and input_text parts"),
        _ID,
        _STATUS,
        _PHASE,
    ),
)
INPUT_TEXT = Section("input_text parts", (Field("type", "honoured"), Field("text", "honoured"), _BREAKPOINT))
INPUT_IMAGE = Section(
    "input_image parts",
    (
        Field("type", "honoured"),
        Field("image_url", "honoured", "a data URL; http and file only where the operator allows them"),
        Field("detail", "honoured", "as for chat"),
        Field("file_id", "refused", "there are no stored files: send `image_url`"),
        _BREAKPOINT,
    ),
)
INPUT_AUDIO = Section(
    "input_audio parts of `input`", (Field("type", "honoured"), Field("input_audio", "honoured"))
)
SOUND = Section(
    "input_audio of `input`",
    (
        Field("data", "honoured", "base64, padded, without line breaks or blanks"),
        Field("format", "honoured", "`wav` or `mp3`; the bytes themselves decide how they are read"),
    ),
)
OUTPUT_TEXT = Section(
    "output_text parts",
    (
        Field("type", "honoured"),
        Field("text", "honoured"),
        Field("annotations", "harmless", "not shown to the model"),
        Field("logprobs", "harmless", "not shown to the model"),
        PARSED,
    ),
)
FUNCTION_CALL = Section(
    "function_call items",
    (
        Field("type", "honoured"),
        Field("call_id", "honoured"),
        Field("name", "honoured"),
        Field("arguments", "honoured", "as for chat"),
        PARSED_ARGUMENTS,
        _ID,
        _STATUS,
        _CALLER,
        Field("namespace", "honoured", "that of the function that was called"),
        Field("async", "refused", "calls are answered in the next request", (False,)),
        Field("async_", "refused", "the official client's name for `async`", (False,)),
    ),
)
FUNCTION_OUTPUT = Section(
    "function_call_output items",
    (
        Field("type", "honoured"),
        Field("call_id", "honoured", "of an earlier function_call item"),
        Field("output", "honoured", "a string or input_text parts"),
        Field("name", "harmless", "the call is known by `call_id`"),
        _ID,
        _STATUS,
        _CALLER,
        Field("namespace", "harmless", "the call is known by `call_id`"),
    ),
)
REASONING_ITEM = Section(
    "reasoning items",
    (
        Field("type", "honoured"),
        Field("content", "honoured", "given to the chat template with the message or calls that follow"),
        Field("summary", "harmless", "a summary is not what the model thought"),
        Field("encrypted_content", "harmless", "written by another server; can't be read"),
        _ID,
        _STATUS,
    ),
)
REASONING_TEXT = Section("reasoning_text parts", (Field("type", "honoured"), Field("text", "honoured")))

RESPONSE_TOOL = Section(
    "tools of a response",
    (
        Field("type", "honoured", "`function` or `namespace`; all others are refused"),
        Field("name", "honoured"),
        Field("description", "honoured"),
        Field("parameters", "honoured", "a JSON schema"),
        Field("strict", "honoured", "as for chat"),
        Field("output_schema", "harmless", "outputs are given to the model as they are"),
        Field("allowed_callers", "refused", "only the model calls functions", (["direct"],)),
        Field("defer_loading", "refused", "there is no tool search", (False,)),
        Field("async", "refused", "calls are answered in the next request", (False,)),
    ),
)
RESPONSE_NAMESPACE = Section(
    "namespaces among the tools of a response",
    (
        Field("type", "honoured"),
        Field("name", "honoured", "the model sees `NAMESPACE__FUNCTION`, the client both apart"),
        Field("description", "honoured", "goes before that of each of its functions"),
        Field("tools", "honoured", "functions; custom tools are refused"),
    ),
)
RESPONSE_NAMED_TOOL = Section(
    "tool_choice of a response: a named function", (Field("type", "honoured"), Field("name", "honoured"))
)
RESPONSE_ALLOWED_TOOLS = Section(
    "tool_choice of a response: allowed tools",
    (Field("type", "honoured"), Field("mode", "honoured"), Field("tools", "honoured", "named functions")),
)

SECTIONS = sections_in(dict(globals()))
