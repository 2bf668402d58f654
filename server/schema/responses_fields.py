"""The field table of POST /v1/responses, in the form of `server.schema.field`."""

from server.schema.field import Section, harmless, honoured, refused, sections_in
from server.schema.message_fields import PARSED
from server.schema.tool_fields import PARSED_ARGUMENTS

_CACHED = "every prompt is cached, for as long as memory lasts"
_BREAKPOINT = harmless("prompt_cache_breakpoint", _CACHED)
_STATUS = harmless("status", "an item is taken as it stands")
_ID = harmless("id", "nothing is stored, so an id finds nothing")
_PHASE = harmless("phase", "chat templates have no place for it")
_CALLER = refused("caller", "programs do not call tools here", ({"type": "direct"},))

RESPONSE = Section(
    "POST /v1/responses",
    (
        honoured("model", "one of the served names, exactly"),
        honoured("input", "a string, or items: messages, function calls, their outputs, reasoning"),
        honoured("instructions", "a system message before all others"),
        honoured("max_output_tokens", "at least 1; capped at what the context leaves"),
        honoured("temperature", "0 to 2, default 1; 0 takes the most likely token"),
        honoured("top_p", "above 0, at most 1; default 1"),
        honoured("stream", "the published events in their order; no `[DONE]` after the last"),
        honoured("stream_options", "needs `stream`"),
        honoured("text", "the answer's form"),
        honoured(
            "tools",
            "functions, alone or in namespaces; every built-in, MCP or custom tool is refused",
        ),
        honoured("tool_choice", "`none`, `auto`, `required`, a named function or `allowed_tools`"),
        honoured("parallel_tool_calls", "false: at most one call"),
        honoured("top_logprobs", "0 to 20; above 0 includes `message.output_text.logprobs`"),
        honoured(
            "include",
            "`message.output_text.logprobs`; the others add nothing: there are no built-in tools, "
            "and reasoning is text that needs no `encrypted_content`",
        ),
        honoured("metadata", "comes back in the response; not stored"),
        honoured("reasoning"),
        harmless("user", "comes back; tenants come from API keys"),
        harmless("client_metadata", "what an agent says of itself; not used", extension=True),
        harmless("safety_identifier", "comes back"),
        harmless("prompt_cache_key", "comes back; the cache finds prompts by content"),
        harmless("prompt_cache_options", _CACHED),
        harmless("prompt_cache_retention", _CACHED),
        harmless("max_tool_calls", "limits calls of built-in tools, of which there are none"),
        refused("store", "nothing is stored; absent means false here", (False,)),
        refused("previous_response_id", "nothing is stored: send the earlier items as `input`"),
        refused("conversation", "nothing is stored: send the earlier items as `input`"),
        refused("background", "nothing is stored, so an answer can't be fetched later", (False,)),
        refused("background_options", "there is no background work", ({},)),
        refused("prompt", "no prompt templates are stored: send `instructions` and `input`"),
        refused("truncation", "a prompt that does not fit is an error", ("disabled",)),
        refused("context_management", "a conversation is never compacted", ([],)),
        refused("service_tier", "there is one tier", ("auto", "default")),
        refused("moderation", "there is no moderation model"),
        refused("access_programs", "there are no access programs", ({},)),
        refused(
            "image",
            "pictures are never compressed",
            ({}, {"context_compression": "auto"}, {"context_compression": "disabled"}),
        ),
        honoured("seed", "as for chat", extension=True),
        honoured("top_k", "as for chat", extension=True),
        honoured("cache_salt", "as for chat", extension=True),
        honoured("chat_template_kwargs", "as for chat", extension=True),
    ),
)

RESPONSE_STREAM_OPTIONS = Section(
    "stream_options of a response", (harmless("include_obfuscation", "events are never padded"),)
)
REASONING = Section(
    "reasoning",
    (
        honoured("effort", "as `reasoning_effort` of chat"),
        harmless("summary", "comes back; thoughts are given whole, so nothing is summed up"),
        harmless("generate_summary", "deprecated name of `summary`"),
        refused("context", "which earlier thoughts count is for the chat template", ("auto",)),
        refused("mode", "there is one mode", ("standard",)),
    ),
)
TEXT = Section(
    "text",
    (
        honoured("format", "`text`, `json_object` or `json_schema`; with `tools` as for chat"),
        refused("verbosity", "open models have no such setting", ("medium",)),
    ),
)
TEXT_FORMAT = Section(
    "text.format",
    (
        honoured("type"),
        honoured("name", "needed with `json_schema`"),
        honoured("schema", "needed with `json_schema`; what can't be enforced is refused"),
        harmless("description", "not shown to the model"),
        harmless("strict", "the schema is enforced either way"),
    ),
)

INPUT_MESSAGE = Section(
    "user, system and developer messages of `input`",
    (
        honoured("type", "`message`, the default"),
        honoured("role"),
        honoured("content", "a string or parts; of system and developer messages text parts only"),
        _ID,
        _STATUS,
        _PHASE,
    ),
)
OUTPUT_MESSAGE = Section(
    "assistant messages of `input`",
    (
        honoured("type", "`message`, the default"),
        honoured("role"),
        honoured("content", "a string, or output_text, refusal and input_text parts"),
        _ID,
        _STATUS,
        _PHASE,
    ),
)
INPUT_TEXT = Section("input_text parts", (honoured("type"), honoured("text"), _BREAKPOINT))
INPUT_IMAGE = Section(
    "input_image parts",
    (
        honoured("type"),
        honoured("image_url", "a data URL; http and file only where the operator allows them"),
        honoured("detail", "as for chat"),
        refused("file_id", "there are no stored files: send `image_url`"),
        _BREAKPOINT,
    ),
)
INPUT_AUDIO = Section("input_audio parts of `input`", (honoured("type"), honoured("input_audio")))
SOUND = Section(
    "input_audio of `input`",
    (
        honoured("data", "base64, padded, without line breaks or blanks"),
        honoured("format", "`wav` or `mp3`; the bytes themselves decide how they are read"),
    ),
)
OUTPUT_TEXT = Section(
    "output_text parts",
    (
        honoured("type"),
        honoured("text"),
        harmless("annotations", "not shown to the model"),
        harmless("logprobs", "not shown to the model"),
        PARSED,
    ),
)
FUNCTION_CALL = Section(
    "function_call items",
    (
        honoured("type"),
        honoured("call_id"),
        honoured("name"),
        honoured("arguments", "as for chat"),
        PARSED_ARGUMENTS,
        _ID,
        _STATUS,
        _CALLER,
        honoured("namespace", "that of the function that was called"),
        refused("async", "calls are answered in the next request", (False,)),
        refused("async_", "the official client's name for `async`", (False,)),
    ),
)
FUNCTION_OUTPUT = Section(
    "function_call_output items",
    (
        honoured("type"),
        honoured("call_id", "of an earlier function_call item"),
        honoured("output", "a string or input_text parts"),
        harmless("name", "the call is known by `call_id`"),
        _ID,
        _STATUS,
        _CALLER,
        harmless("namespace", "the call is known by `call_id`"),
    ),
)
REASONING_ITEM = Section(
    "reasoning items",
    (
        honoured("type"),
        honoured("content", "given to the chat template with the message or calls that follow"),
        harmless("summary", "a summary is not what the model thought"),
        harmless("encrypted_content", "written by another server; can't be read"),
        _ID,
        _STATUS,
    ),
)
REASONING_TEXT = Section("reasoning_text parts", (honoured("type"), honoured("text")))

RESPONSE_TOOL = Section(
    "tools of a response",
    (
        honoured("type", "`function` or `namespace`; all others are refused"),
        honoured("name"),
        honoured("description"),
        honoured("parameters", "a JSON schema"),
        honoured("strict", "as for chat"),
        harmless("output_schema", "outputs are given to the model as they are"),
        refused("allowed_callers", "only the model calls functions", (["direct"],)),
        refused("defer_loading", "there is no tool search", (False,)),
        refused("async", "calls are answered in the next request", (False,)),
    ),
)
RESPONSE_NAMESPACE = Section(
    "namespaces among the tools of a response",
    (
        honoured("type"),
        honoured("name", "the model sees `NAMESPACE__FUNCTION`, the client both apart"),
        honoured("description", "goes before that of each of its functions"),
        honoured("tools", "functions; custom tools are refused"),
    ),
)
RESPONSE_NAMED_TOOL = Section(
    "tool_choice of a response: a named function", (honoured("type"), honoured("name"))
)
RESPONSE_ALLOWED_TOOLS = Section(
    "tool_choice of a response: allowed tools",
    (honoured("type"), honoured("mode"), honoured("tools", "named functions")),
)

SECTIONS = sections_in(dict(globals()))
