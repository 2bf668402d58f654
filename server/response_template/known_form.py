"""How models write calls whose checkpoints have no response template: told by their chat templates, which
write earlier calls in the same form.

What is known here is put into the shape that checkpoints publish, so that one reader reads all.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from server.response_template.template import ResponseTemplate
from server.tools.form import TAGGED, CallForm

_BARE = re.compile(r"""\{"name": ?["'].{0,120}"parameters": """, re.DOTALL)
"""A template that writes `{"name": "...", "parameters": {...}}`, in one piece or in several."""


class KnownForm(NamedTuple):
    """form: None where no grammar can enforce it."""

    template: ResponseTemplate
    form: CallForm | None


def known_form(chat_template: str) -> KnownForm | None:
    """None for the form that is read where nothing else is known: objects of JSON between tags."""
    found = _calls(chat_template)
    if found is None:
        return None
    calls, form = found
    fields: dict[str, Any] = {"tool_calls": calls, "content": {"content_args": {"strip": False}}}
    for opening, closing in (("[THINK]", "[/THINK]"), ("<think>", "</think>")):
        if opening in chat_template:
            marks = {
                "open_pattern": rf"\A\s*{re.escape(opening)}",
                "close_pattern": rf"{re.escape(closing)}\n*",
            }
            fields["reasoning_content"] = marks
            break
    anchor = {"start_anchor": _CHATML} if _CHATML in chat_template else {"start_anchor_pattern": r"\Z"}
    return KnownForm(ResponseTemplate.load(anchor | {"fields": fields}), form)


_CHATML = "<|im_start|>assistant\n"


def _calls(chat_template: str) -> tuple[Mapping[str, Any], CallForm | None] | None:
    if "[TOOL_CALLS]" in chat_template:
        return (_NAMED, _NAMED_FORM) if "[ARGS]" in chat_template else (_LISTED, _LISTED_FORM)
    if "<function=" in chat_template and "<parameter=" in chat_template:
        return _PARAMETERS, None
    if TAGGED.opening not in chat_template and _BARE.search(chat_template):
        return _OBJECT, _OBJECT_FORM
    return None


_LISTED = {"open_pattern": r"\s*\[TOOL_CALLS\]", "content": "json"}
_LISTED_FORM = CallForm("[TOOL_CALLS]", "", in_list=True)
"""`[TOOL_CALLS] [{"name": "f", "arguments": {}}, ...]`, of Mistral's earlier models."""

_NAMED = {
    "open_pattern": r"\s*\[TOOL_CALLS\]\s*(?P<name>[\w.\-]+)\s*(?:\[CALL_ID\]\s*\w*\s*)?\[ARGS\]",
    "close_pattern": r"\s*(?=\[TOOL_CALLS\])",
    "repeats": True,
    "content": "json",
    "transform": {"function": {"name": "{name}", "arguments": "{content}"}},
}
_NAMED_FORM = CallForm("[TOOL_CALLS]", "", joint="[ARGS]")
"""`[TOOL_CALLS]f[ARGS]{}`, of its later ones."""

_OBJECT = {
    "open_pattern": r'\A\s*(?:<\|python_tag\|>\s*)?(?=\{\s*"(?:name"|parameters"|type"\s*:\s*"function"))',
    "content": "json",
    "transform": {"function": {"name": "{content.name}", "arguments": "{content.parameters}"}},
}
_OBJECT_FORM = CallForm("", "", arguments_key="parameters")
"""`{"name": "f", "parameters": {}}` as the whole answer, of Llama 3. One call, as its template has it. An
object that begins differently is an answer, and told while it comes."""

_PARAMETERS = {
    "open_pattern": r"\s*(?:<tool_call>\s*)?<function=(?P<name>[^<>\n]+)>",
    "close_pattern": r"</function>\s*(?:</tool_call>\s*|(?=<tool_call>|<function=)|\Z)",
    "repeats": True,
    "content": "xml-inline",
    "content_args": {
        # What is no whole parameter is a match without a key, with which the text is no call.
        "tag_pattern": r"<parameter=(?P<key>[^<>\n]+)>\n?(?P<value>.*?)\n?</parameter>|\S"
    },
    "transform": {"function": {"name": "{name}", "arguments": "{content}"}},
}
"""`<function=f><parameter=a>...</parameter></function>` between tags, of Qwen's models for code. The tags
around it are sometimes left out. Every value is text, and becomes what the function's schema says."""
