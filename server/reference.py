"""The reference pages that are generated from the code: docs/settings.md and docs/api.md."""

from pathlib import Path

from server.flags import reference_page
from server.schema.fields import SECTIONS, Field, Section

_INTRODUCTION = """# API

Generated from the server's field table by `intarsia docs`. **honoured**: it does what OpenAI publishes,
within the note. **harmless**: accepted, checked, and without effect on the answer. **refused**: 400 with
the field's name in `param`, unless it is null or asks for nothing. Fields that appear in no table are
refused too, unless `--allow-unknown-fields` is set.

## What holds for all endpoints

- Every route but `/health`, `/ready` and the web page wants `Authorization: Bearer <key>` once a key is
configured.
- Errors are `{"error": {"message", "type", "param", "code"}}`. 400: the request; 401: the key; 404: route
or model; 408: the
  body came too slowly; 413: it was too large; 415: it was not JSON; 503 with `Retry-After`: loading,
  draining or full.
- A body must be UTF-8 JSON, without duplicate keys, NaN, numbers beyond float64, half surrogate pairs, or
nesting over 100.
- A client that closes its connection, or the sending half of it, cancels its request.
- `usage` always tells cached, image and audio tokens. `completion_tokens` counts every generated token that
was read, the
  one that ended the answer included.
- A limit on tokens that exceeds what the context leaves is cut to it. A prompt that fills the context is
refused.
- Streams: the role first, one finish reason for each choice, usage last, then `[DONE]`; `: ping` comments
while nothing comes.
  A failure after the stream began is an `error` event, after which the connection is broken off without an
  end.
- `reasoning_content` (an extension) holds what a model wrote between `<think>` and `</think>`, where its
tokenizer has both
  tokens and its template knows them; `content` then begins after it. Not with a grammar or a forced tool
  call.
- Tool calls are read in the form `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`. What does not
parse is content.
- JSON that a schema forces is written in one way, `{"a": 1, "b": [2]}`: a space after comma and colon, no
other blanks. """


def api_page() -> str:
    return "\n".join([_INTRODUCTION, *(_section(section) for section in SECTIONS)])


def _section(section: Section) -> str:
    rows = [f"| `{field.name}` | {_status(field)} | {field.note} |" for field in section.fields]
    return "\n".join([f"## {section.title}", "", "| field | | note |", "|---|---|---|", *rows, ""])


def _status(field: Field) -> str:
    return f"{field.status}, an extension" if field.extension and field.status == "honoured" else field.status


def pages() -> dict[str, str]:
    return {"settings.md": reference_page(), "api.md": api_page()}


def write(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (directory / name).write_text(text)
