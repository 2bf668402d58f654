"""Fields of the bodies of chats, completions and token counts."""

from server.schema.field import Section, harmless, honoured, refused, sections_in

_SAMPLING = (
    honoured("temperature", "0 to 2, default 1; 0 takes the most likely token"),
    honoured("top_p", "above 0, at most 1; default 1"),
    honoured("frequency_penalty", "-2 to 2"),
    honoured("presence_penalty", "-2 to 2"),
    honoured("logit_bias", "token id to -100..100; an id outside the vocabulary is refused"),
    honoured("seed", "int64; the same seed, prompt and settings give the same answer. Default: random"),
    honoured(
        "stop",
        "1 to 4 strings of at most 1,000 characters; the earliest match ends the answer, without it",
    ),
    honoured("n", "1 to 128"),
    honoured("stream"),
    honoured("stream_options"),
    harmless("user", "not used: tenants come from API keys"),
    honoured("top_k", "sample among this many tokens; 0 or -1: no limit", extension=True),
    honoured("min_p", "0 to 1: least probability relative to the best token's", extension=True),
    honoured("repetition_penalty", "0.001 to 10; default 1", extension=True),
    honoured(
        "stop_token_ids",
        "at most 64 ids; one of them ends the answer and is not part of its text",
        extension=True,
    ),
    honoured("ignore_eos", "go on past the model's end-of-text tokens", extension=True),
    honoured("min_tokens", "no end of text before this many tokens", extension=True),
    honoured(
        "cache_salt", "narrows what cached prompts are shared with: 1 to 256 characters", extension=True
    ),
)

CHAT = Section(
    "POST /v1/chat/completions",
    (
        honoured("model", "one of the served names, exactly"),
        honoured("messages"),
        *_SAMPLING,
        honoured(
            "max_completion_tokens",
            "at least 1; capped at what the context leaves, which is also the default",
        ),
        honoured(
            "max_tokens", "the older name of `max_completion_tokens`; giving both is refused unless equal"
        ),
        honoured("logprobs", "of the model's raw distribution; never below -9999"),
        honoured("top_logprobs", "0 to 20; needs `logprobs`"),
        honoured(
            "response_format",
            "`text`, `json_object` or `json_schema`; a schema is always enforced, strict or not. Beside "
            "`tools` an answer is calls or of this form, unless `tool_choice` forces a call; refused there "
            "where the model writes calls in a form that can't be enforced",
        ),
        honoured("tools", "functions; where the model's chat template has no place for tools, refused"),
        honoured("tool_choice", "`none`, `auto`, `required`, a named function or `allowed_tools`"),
        honoured("parallel_tool_calls", "false: at most one call"),
        harmless("metadata", "checked against the published limits, then dropped: nothing is stored"),
        harmless("safety_identifier", "checked, then dropped"),
        harmless(
            "prompt_cache_key", "the cache finds prompts by content; a routing hint has nothing to route"
        ),
        harmless("prompt_cache_options", "every prompt is cached, for as long as memory lasts"),
        harmless("prompt_cache_retention", "cached for as long as memory lasts"),
        harmless("prediction", "a hint for speed that never changes an answer; not used"),
        refused("service_tier", "there is one tier", ("auto", "default")),
        refused("store", "nothing is stored", (False,)),
        refused("modalities", "answers are text", (["text"],)),
        refused("audio", "answers are text"),
        refused("moderation", "there is no moderation model"),
        honoured(
            "reasoning_effort",
            "given to the chat template where it reads `reasoning_effort`; where it reads `enable_thinking` "
            "or `thinking`, `none` is off and anything else on; where it reads none of them, only the "
            "default, `medium`, is accepted",
        ),
        refused("verbosity", "open models have no such setting", ("medium",)),
        refused("web_search_options", "there is no web search"),
        refused("functions", "deprecated: use `tools`", ([],)),
        refused("function_call", "deprecated: use `tool_choice`", ("none",)),
        honoured(
            "chat_template_kwargs",
            "extra variables for the chat template; never the template itself",
            extension=True,
        ),
        honoured(
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
        honoured("model", "one of the served names, exactly"),
        honoured("prompt", "a string, strings, token ids, or lists of token ids; at most 128 prompts"),
        *_SAMPLING,
        honoured("max_tokens", "at least 1, default 16; capped at what the context leaves"),
        honoured("logprobs", "0 to 5; of each token that many best, and the token itself"),
        refused("best_of", "answers are not ranked", (1,)),
        refused("echo", "the prompt is not repeated", (False,)),
        refused("suffix", "models that fill in the middle are not supported", ("",)),
    ),
)

STREAM_OPTIONS = Section(
    "stream_options",
    (
        honoured("include_usage", "a last chunk with the totals"),
        harmless("include_obfuscation", "chunks are never padded"),
    ),
)

TOKENIZE = Section(
    "POST /tokenize (an extension)",
    tuple(
        honoured(name, note, extension=True)
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
        honoured("model", "optional", extension=True),
        honoured("tokens", "token ids", extension=True),
    ),
)


SECTIONS = sections_in(dict(globals()))
