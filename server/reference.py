"""The reference pages that are generated from the code: docs/settings.md, docs/api.md and, in a checkout,
docs/compatibility.md."""

from pathlib import Path
from runpy import run_path

from server.flags import reference_page
from server.schema.field import Field, Section
from server.schema.table import SECTIONS

PROVED = Path(__file__).parents[1] / "tests" / "proof" / "compatibility.py"
"""What the tests say of each family. They are not installed with the program."""

_INTRODUCTION = """# API

Generated from the server's field table by `intarsia docs`. **honoured**: it does what OpenAI publishes,
within the note. **harmless**: accepted, checked, and without effect on the answer. **refused**: 400 with
the field's name in `param`, unless it is null or asks for nothing. Fields that appear in no table are
refused too, unless `--allow-unknown-fields` is set.

## What holds for all endpoints

- Every route but `/health`, `/ready` and the web page wants `Authorization: Bearer <key>` once a key is
  configured.
- Errors are `{"error": {"message", "type", "param", "code"}}`. 400: the request; 401: the key; 404: route
  or model; 408: the body came too slowly; 413: it was too large; 415: it was not JSON (or, for a sound, no
  form); 503 with `Retry-After`: loading, draining or full.
- A body must be UTF-8 JSON, without duplicate keys, NaN, numbers beyond float64, half surrogate pairs, or
  nesting over 100.
- A client that closes its connection, or the sending half of it, cancels its request.
- `usage` always tells cached, image and audio tokens. `completion_tokens` counts every generated token that
  was read, the one that ended the answer included.
- A limit on tokens that exceeds what the context leaves is cut to it. A prompt that fills the context is
  refused.
- Streams of chats and completions: the role first, one finish reason for each choice, usage last, then
  `[DONE]`; `: ping` comments while nothing comes. A failure after the stream began is an `error` event,
  after which the connection is broken off without an end.
- `reasoning_content` (an extension) holds what a model thought before its answer, tool calls are what it
  asks to be done. Both are read by the checkpoint's own `response_template` (in `tokenizer_config.json`, as
  `transformers` publishes it), if it has one: thoughts and content as they come, each call once it is whole,
  arguments cast to the types of the tool's schema. Text that is not of the template's form is content.
- Without a response template, a thought is what stands between `<think>` and `</think>`, where the tokenizer
  has both tokens and the chat template knows them; and a call is read in the form in which the chat template
  writes calls: `[TOOL_CALLS]` before a list, or before a name, `[ARGS]` and an object (Mistral); the whole
  answer as `{"name": ..., "parameters": {...}}`, if that is the name of a function that is offered (Llama 3);
  `<function=...>` with a tag for each argument (Qwen's models for code); for all others
  `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`. What does not parse is content.
- A forced tool call, and a `strict` tool, are enforced by a grammar, in the form that is read. Where that is
  a tag for each argument, or in a response template anything but one object of JSON between two fixed marks,
  it is the last one above, in which only forced calls can be had: `strict` is then refused, and so is a
  structured answer beside tools. With a grammar for the whole answer there are no thoughts.
- JSON that a schema forces is written in one way, `{"a": 1, "b": [2]}`: a space after comma and colon, no
  other blanks.

## What holds for /v1/responses

- Nothing is stored: each request brings all its items, and `store` is false in every response.
- A thought, a text and each call are items of their own. Sent back as `input`, they become one assistant
  message again, so that the cache finds it. A thought is a `reasoning` item whose `content` is plain text;
  its summary is empty.
- A stream has the published events in their order and ends with `response.completed`, `response.incomplete`
  (`max_output_tokens`) or `response.failed`. Nothing follows the last event. An answer that fails before
  its first event has an HTTP status instead, or, once a `: ping` went out, an `error` event.
- Built-in tools, MCP servers and custom tools are refused by name, and so are all items that belong to
  them.

## What holds for /v1/audio/transcriptions

- A sound becomes one chat turn: the sound, then `--transcription-prompt` (by default what the checkpoint's
  generation_config.json says under `transcription_prompt`, else a sentence for any model), then what
  `language` and `prompt` add. Any model that takes audio can be asked; how well it transcribes is the
  model's own affair.
- A transcript that the context cuts off is an error (`context_length_exceeded`), as no field could say that
  it lacks its end.
- The form is bounded like every body (`--max-body-bytes`); its text fields by 64 KiB each.
"""


def api_page() -> str:
    return "\n".join([_INTRODUCTION, *(_section(section) for section in SECTIONS)])


def _section(section: Section) -> str:
    rows = [f"| `{field.name}` | {_status(field)} | {field.note} |" for field in section.fields]
    return "\n".join([f"## {section.title}", "", "| field | | note |", "|---|---|---|", *rows, ""])


def _status(field: Field) -> str:
    return f"{field.status}, an extension" if field.extension and field.status == "honoured" else field.status


def pages() -> dict[str, str]:
    pages = {"settings.md": reference_page(), "api.md": api_page()}
    if PROVED.is_file():
        pages["compatibility.md"] = run_path(str(PROVED))["page"]()
    return pages


def write(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (directory / name).write_text(text)
