"""Fields of messages and of their parts."""

from server.schema.field import Section, harmless, honoured, refused, sections_in

_BREAKPOINT = harmless("prompt_cache_breakpoint", "every prompt is cached; no marks are needed")
_UUID = honoured(
    "uuid",
    "1 to 256 characters: your own name for this content, bound to API key, `cache_salt` and the bytes that "
    "first came with it. A later part with the same uuid may leave its data out, as long as they are held "
    "(`--named-media-memory`); else 400 `media_uuid_not_found`. Other bytes: 400 `media_uuid_conflict`",
    extension=True,
)
PARSED = harmless("parsed", "what the official client made of the text")
_NAME = harmless("name", "chat templates have no place for a participant's name")

SYSTEM_MESSAGE = Section(
    "system and developer messages",
    (honoured("role"), honoured("content", "a string or text parts"), _NAME),
)
USER_MESSAGE = Section(
    "user messages",
    (honoured("role"), honoured("content", "a string, or text, image and audio parts in any order"), _NAME),
)
ASSISTANT_MESSAGE = Section(
    "assistant messages",
    (
        honoured("role"),
        honoured("content", "a string, text parts, or null with `tool_calls` or `reasoning_content`"),
        honoured("tool_calls"),
        honoured("refusal", "stands as the message's text where there is no content"),
        _NAME,
        refused("audio", "answers are text, so there is no earlier audio to refer to"),
        refused("function_call", "deprecated: use `tool_calls`"),
        honoured("reasoning_content", "given to the chat template, which may use it", extension=True),
        harmless("annotations", "not shown to the model"),
        PARSED,
    ),
)
TOOL_MESSAGE = Section(
    "tool messages",
    (
        honoured("role"),
        honoured("content", "a string or text parts"),
        honoured("tool_call_id"),
        harmless("name", "the call is known by `tool_call_id`"),
    ),
)

TEXT_PART = Section("text parts", (honoured("type"), honoured("text"), _BREAKPOINT))
REFUSAL_PART = Section("refusal parts (assistant only)", (honoured("type"), honoured("refusal")))
IMAGE_PART = Section(
    "image_url parts",
    (
        honoured("type"),
        honoured("image_url", "an object; a bare string is refused; may be left out with `uuid`"),
        _BREAKPOINT,
        _UUID,
    ),
)
IMAGE_URL = Section(
    "image_url",
    (
        honoured("url", "a data URL as `base64 -w0` writes it; http and file where the operator allows them"),
        honoured(
            "detail",
            "`low` uses fewer tokens where the model can scale pictures (Qwen does, LLaVA does not); "
            "`auto`, `high` and `original` are the model's own resolution",
        ),
    ),
)
INPUT_AUDIO_PART = Section(
    "input_audio parts",
    (honoured("type"), honoured("input_audio", "may be left out with `uuid`"), _BREAKPOINT, _UUID),
)
INPUT_AUDIO = Section(
    "input_audio",
    (
        honoured("data", "base64, padded, without line breaks or blanks"),
        honoured(
            "format",
            "`wav` or `mp3`; the bytes themselves decide how they are read (FLAC, Ogg, M4A and WebM too). "
            "Of a WAV, MP3 or Ogg that is cut off, what can be decoded is heard",
        ),
    ),
)
AUDIO_URL_PART = Section(
    "audio_url parts (an extension)",
    (
        honoured("type", "", extension=True),
        honoured("audio_url", "may be left out with `uuid`", extension=True),
        _UUID,
    ),
)
AUDIO_URL = Section("audio_url", (honoured("url", "as for images", extension=True),))


SECTIONS = sections_in(dict(globals()))
