"""Every published request field and what this server does with it: honoured, harmless, or refused by name.

The table is the source of the wire types' refusals and of docs/api.md; a test walks the official client's
types and fails if one of their fields has no row here. Knows names and reasons, not types: those are in the
wire models."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

Status = Literal["honoured", "harmless", "refused"]


class Field(NamedTuple):
    """One field. `accepts`: values of a refused field that ask for nothing, and so pass (null always
    does)."""

    name: str
    status: Status
    note: str = ""
    accepts: tuple[Any, ...] = ()
    extension: bool = False


class Section(NamedTuple):
    """The fields of one JSON object. `title` heads it in the reference."""

    title: str
    fields: tuple[Field, ...]

    def refused(self, data: dict[str, Any]) -> Field | None:
        """The first refused field that `data` sets to something that would change the answer."""
        for field in self.fields:
            if field.status != "refused" or data.get(field.name) is None:
                continue
            if not any(_same(data[field.name], value) for value in field.accepts):
                return field
        return None

    def names(self, *statuses: Status) -> set[str]:
        return {field.name for field in self.fields if field.status in statuses}


def _same(value: Any, accepted: Any) -> bool:
    return type(value) is type(accepted) and value == accepted


def _honoured(name: str, note: str = "", *, extension: bool = False) -> Field:
    return Field(name, "honoured", note, extension=extension)


def _harmless(name: str, note: str) -> Field:
    return Field(name, "harmless", note)


def _refused(name: str, note: str, accepts: Sequence[Any] = ()) -> Field:
    return Field(name, "refused", note, tuple(accepts))


_BREAKPOINT = _harmless(
    "prompt_cache_breakpoint", "every full block of a prompt is cached; no marks are needed"
)
_UUID = _honoured(
    "uuid",
    "1 to 256 characters: your own name for this content, bound to API key, `cache_salt` and the bytes that "
    "first came with it. A later part with the same uuid may leave its data out, as long as they are held "
    "(`--named-media-memory`); else 400 `media_uuid_not_found`. Other bytes: 400 `media_uuid_conflict`",
    extension=True,
)
_NAME = _harmless("name", "chat templates have no place for a participant's name")

_SAMPLING = (
    _honoured("temperature", "0 to 2, default 1; 0 takes the most likely token"),
    _honoured("top_p", "above 0, at most 1; default 1"),
    _honoured("frequency_penalty", "-2 to 2"),
    _honoured("presence_penalty", "-2 to 2"),
    _honoured("logit_bias", "token id to -100..100; an id outside the vocabulary is refused"),
    _honoured("seed", "int64; the same seed, prompt and settings give the same answer. Default: random"),
    _honoured(
        "stop",
        "1 to 4 strings of at most 1,000 characters; the earliest match ends the answer, without it",
    ),
    _honoured("n", "1 to 128"),
    _honoured("stream"),
    _honoured("stream_options"),
    _harmless("user", "not used: tenants come from API keys"),
    _honoured("top_k", "sample among this many tokens; 0 or -1: no limit", extension=True),
    _honoured("min_p", "0 to 1: least probability relative to the best token's", extension=True),
    _honoured("repetition_penalty", "above 0, at most 10; default 1", extension=True),
    _honoured(
        "stop_token_ids",
        "at most 64 ids; one of them ends the answer and is not part of its text",
        extension=True,
    ),
    _honoured("ignore_eos", "go on past the model's end-of-text tokens", extension=True),
    _honoured("min_tokens", "no end of text before this many tokens", extension=True),
    _honoured(
        "cache_salt", "narrows what cached prompts are shared with: 1 to 256 characters", extension=True
    ),
)

CHAT = Section(
    "POST /v1/chat/completions",
    (
        _honoured("model", "one of the served names, exactly"),
        _honoured("messages"),
        *_SAMPLING,
        _honoured(
            "max_completion_tokens",
            "at least 1; capped at what the context leaves, which is also the default",
        ),
        _honoured(
            "max_tokens", "the older name of `max_completion_tokens`; giving both is refused unless equal"
        ),
        _honoured("logprobs", "of the model's raw distribution; never below -9999"),
        _honoured("top_logprobs", "0 to 20; needs `logprobs`"),
        _honoured(
            "response_format",
            "`text`, `json_object` or `json_schema`; a schema is always enforced, strict or not",
        ),
        _honoured("tools", "functions; where the model's chat template has no place for tools, refused"),
        _honoured("tool_choice", "`none`, `auto`, `required`, a named function or `allowed_tools`"),
        _honoured("parallel_tool_calls", "false: at most one call"),
        _harmless("metadata", "checked against the published limits, then dropped: nothing is stored"),
        _harmless("safety_identifier", "checked, then dropped"),
        _harmless(
            "prompt_cache_key", "the cache finds prompts by content; a routing hint has nothing to route"
        ),
        _harmless(
            "prompt_cache_options", "every full block of a prompt is cached, for as long as memory lasts"
        ),
        _harmless("prompt_cache_retention", "cached for as long as memory lasts"),
        _harmless("prediction", "a hint for speed that never changes an answer; not used"),
        _refused("service_tier", "there is one tier", ("auto", "default")),
        _refused("store", "nothing is stored", (False,)),
        _refused("modalities", "answers are text", (["text"],)),
        _refused("audio", "answers are text"),
        _refused("moderation", "there is no moderation model"),
        _refused(
            "reasoning_effort",
            "models differ: use `chat_template_kwargs`, which the model's own template reads",
        ),
        _refused("verbosity", "open models have no such setting", ("medium",)),
        _refused("web_search_options", "there is no web search"),
        _refused("functions", "deprecated: use `tools`", ([],)),
        _refused("function_call", "deprecated: use `tool_choice`", ("none",)),
        _honoured(
            "chat_template_kwargs",
            "extra variables for the chat template; never the template itself",
            extension=True,
        ),
        _honoured(
            "structured_outputs",
            "what the whole answer must match, where a JSON schema does not say it; not with "
            "`response_format` or `tools`",
            extension=True,
        ),
    ),
)

COMPLETION = Section(
    "POST /v1/completions",
    (
        _honoured("model", "one of the served names, exactly"),
        _honoured("prompt", "a string, strings, token ids, or lists of token ids; at most 128 prompts"),
        *_SAMPLING,
        _honoured("max_tokens", "at least 1, default 16; capped at what the context leaves"),
        _honoured("logprobs", "0 to 5"),
        _refused("best_of", "answers are not ranked", (1,)),
        _refused("echo", "the prompt is not repeated", (False,)),
        _refused("suffix", "models that fill in the middle are not supported", ("",)),
    ),
)

STREAM_OPTIONS = Section(
    "stream_options",
    (
        _honoured("include_usage", "a last chunk with the totals"),
        _harmless("include_obfuscation", "chunks are never padded"),
    ),
)

SYSTEM_MESSAGE = Section(
    "system and developer messages",
    (_honoured("role"), _honoured("content", "a string or text parts"), _NAME),
)
USER_MESSAGE = Section(
    "user messages",
    (_honoured("role"), _honoured("content", "a string, or text, image and audio parts in any order"), _NAME),
)
ASSISTANT_MESSAGE = Section(
    "assistant messages",
    (
        _honoured("role"),
        _honoured("content", "a string, text parts, or null with `tool_calls`"),
        _honoured("tool_calls"),
        _honoured("refusal", "stands as the message's text where there is no content"),
        _NAME,
        _refused("audio", "answers are text, so there is no earlier audio to refer to"),
        _refused("function_call", "deprecated: use `tool_calls`"),
        _honoured("reasoning_content", "given to the chat template, which may use it", extension=True),
    ),
)
TOOL_MESSAGE = Section(
    "tool messages",
    (_honoured("role"), _honoured("content", "a string or text parts"), _honoured("tool_call_id")),
)

TEXT_PART = Section("text parts", (_honoured("type"), _honoured("text"), _BREAKPOINT))
REFUSAL_PART = Section("refusal parts (assistant only)", (_honoured("type"), _honoured("refusal")))
IMAGE_PART = Section(
    "image_url parts",
    (
        _honoured("type"),
        _honoured("image_url", "an object; a bare string is refused; may be left out with `uuid`"),
        _BREAKPOINT,
        _UUID,
    ),
)
IMAGE_URL = Section(
    "image_url",
    (
        _honoured("url", "a data URL; http and file only where the operator allows them"),
        _honoured(
            "detail", "`low` uses fewer tokens; `auto`, `high` and `original` are the model's own resolution"
        ),
    ),
)
INPUT_AUDIO_PART = Section(
    "input_audio parts",
    (_honoured("type"), _honoured("input_audio", "may be left out with `uuid`"), _BREAKPOINT, _UUID),
)
INPUT_AUDIO = Section(
    "input_audio",
    (
        _honoured("data", "base64"),
        _honoured("format", "`wav` or `mp3`; the bytes themselves decide how they are read"),
    ),
)
AUDIO_URL_PART = Section(
    "audio_url parts (an extension)",
    (
        Field("type", "honoured", "", extension=True),
        Field("audio_url", "honoured", "may be left out with `uuid`", extension=True),
        _UUID,
    ),
)
AUDIO_URL = Section("audio_url", (Field("url", "honoured", "as for images", extension=True),))

TOOL = Section("tools", (_honoured("type", "`function`; `custom` is refused"), _honoured("function")))
FUNCTION = Section(
    "function",
    (
        _honoured("name"),
        _honoured("description"),
        _honoured("parameters", "a JSON schema"),
        _honoured(
            "strict",
            "arguments always follow the schema where a call is forced. Under `auto` they do from the moment "
            "a call begins if any offered tool is strict; without strict they are parsed only",
        ),
    ),
)
TOOL_CALL = Section(
    "tool_calls of an assistant message",
    (_honoured("id"), _honoured("type", "`function`; `custom` is refused"), _honoured("function")),
)
CALLED_FUNCTION = Section(
    "function of a tool call", (_honoured("name"), _honoured("arguments", "a JSON object"))
)
NAMED_TOOL_CHOICE = Section("tool_choice: a named function", (_honoured("type"), _honoured("function")))
NAMED_FUNCTION = Section("function of a tool_choice", (_honoured("name"),))
ALLOWED_TOOLS_CHOICE = Section("tool_choice: allowed tools", (_honoured("type"), _honoured("allowed_tools")))
ALLOWED_TOOLS = Section(
    "allowed_tools", (_honoured("mode"), _honoured("tools", "named functions of `tools`"))
)

RESPONSE_FORMAT = Section("response_format", (_honoured("type"), _honoured("json_schema")))
JSON_SCHEMA = Section(
    "json_schema",
    (
        _honoured("name"),
        _honoured("schema", "what can't be enforced is refused"),
        _harmless("description", "not shown to the model"),
        _harmless("strict", "the schema is enforced either way"),
    ),
)

STRUCTURED_OUTPUTS = Section(
    "structured_outputs (an extension): exactly one of",
    (
        _honoured("regex", "a regular expression (Rust's syntax) for the whole answer", extension=True),
        _honoured("choice", "1 to 1,024 strings, one of which is the answer", extension=True),
        _honoured(
            "grammar", "a context-free grammar in Lark's notation, from its rule `start`", extension=True
        ),
    ),
)

TOKENIZE = Section(
    "POST /tokenize (an extension)",
    tuple(
        Field(name, "honoured", note, extension=True)
        for name, note in (
            ("model", "optional"),
            ("prompt", "a string; or else `messages`"),
            ("messages", "as for chat, text only"),
            ("tools", "as for chat"),
            ("chat_template_kwargs", "as for chat"),
            ("add_generation_prompt", "default true"),
        )
    ),
)
DETOKENIZE = Section(
    "POST /detokenize (an extension)",
    (
        Field("model", "honoured", "optional", extension=True),
        Field("tokens", "honoured", "token ids", extension=True),
    ),
)

SECTIONS: tuple[Section, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Section)
)
