"""A response template that is wrong is refused when it is loaded, and by `transformers` too, if not always as
early."""

from typing import Any

import pytest
from transformers.utils.chat_parsing.response_templates import load_response_template

from server.response_template.call_form import call_form
from server.response_template.delimiter import ResponseTemplateError
from server.response_template.template import ResponseTemplate
from server.tools.form import TAGGED, CallForm
from tests.server.response_template.examples import (
    ACTIONS,
    CHANNELS,
    CHATML,
    LINES,
    LOOSE_JSON,
    PYTHON_CALLS,
    TAGGED_PARAMETERS,
)


def with_field(**field: Any) -> dict[str, Any]:
    return {"start_anchor": "A", "fields": {"f": field}}


WRONG = {
    "no object": [],
    "another version": {**CHATML, "version": 2},
    "unknown keys": {**CHATML, "x-regex": "a"},
    "no anchor": {"fields": {"content": {}}},
    "two anchors": {**CHATML, "start_anchor_pattern": "a"},
    "no fields": {"start_anchor": "A", "fields": {}},
    "fields are a list": {"start_anchor": "A", "fields": [1]},
    "defaults are a list": {**CHATML, "defaults": []},
    "a field is a string": {"start_anchor": "A", "fields": {"f": "text"}},
    "a field's key": with_field(opens="a"),
    "two leftovers": {"start_anchor": "A", "fields": {"f": {}, "g": {}}},
    "no pattern": with_field(open_pattern="("),
    "two openings": with_field(open="a", open_pattern="b"),
    "an empty opening": with_field(open=""),
    "no openings": with_field(open=[]),
    "an opening of numbers": with_field(open=[1]),
    "an unknown content": with_field(content="yaml"),
    "join alone": with_field(join=","),
    "join of numbers": with_field(join=1, repeats=True),
    "each of nothing": with_field(transform_each=True),
    "each is a word": with_field(transform={}, transform_each="yes"),
    "text around a placeholder": with_field(transform={"a": ["x {content}"]}),
    "captures for nothing": with_field(open_pattern="(?P<name>a)"),
}
WRONG_LATER = {
    "an unknown content, as a list": with_field(content=["text"]),
    "a pattern is a number": with_field(open_pattern=3),
    "arguments are a list": with_field(content_args=[1]),
    "no tags": with_field(content="xml-inline"),
    "tags without a key": with_field(content="xml-inline", content_args={"tag_pattern": "<a>"}),
    "tags that are no pattern": with_field(content="xml-inline", content_args={"tag_pattern": "("}),
    "an unknown value": with_field(content="kv-lines", content_args={"value_parser": {"name": "yaml"}}),
    "an empty separator": with_field(content="kv-lines", content_args={"kv_sep": ""}),
    "delimiters alone": with_field(content="json", content_args={"string_delims": ["a"]}),
}
"""Of which `transformers` says nothing until an answer is read, or fails with another error."""


@pytest.mark.parametrize("name", WRONG)
def test_both_refuse_it(name: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        load_response_template(WRONG[name])  # type: ignore[arg-type]
    _assert_refused(WRONG[name])


@pytest.mark.parametrize("name", WRONG_LATER)
def test_it_is_refused_at_once(name: str) -> None:
    _assert_refused(WRONG_LATER[name])


def _assert_refused(template: Any) -> None:
    with pytest.raises(ResponseTemplateError) as caught:
        ResponseTemplate.load(template)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("template", "form"),
    [
        (CHATML, TAGGED),
        (TAGGED_PARAMETERS, None),
        (CHANNELS, None),
        (ACTIONS, None),
        (LOOSE_JSON, None),
        (PYTHON_CALLS, None),
        (LINES, None),
        ({"start_anchor": "A", "fields": {"content": {}}}, TAGGED),
    ],
)
def test_the_form_of_calls_that_a_grammar_can_enforce(
    template: dict[str, Any], form: CallForm | None
) -> None:
    assert call_form(ResponseTemplate.load(template)) == form


@pytest.mark.parametrize(
    ("field", "form"),
    [
        ({"open": "<|a|>", "close": "<|b|>", "content": "json"}, CallForm("<|a|>", "<|b|>")),
        ({"open": ["<|a|>", "<a>"], "close": "<|b|>", "content": "json"}, None),
        ({"open": "<|a|>", "content": "json"}, None),
        (
            {"open_pattern": r"\s*\[a\]", "close_pattern": r"\[/a\]\s*", "content": "json"},
            CallForm("[a]", "[/a]"),
        ),
        ({"open_pattern": r"a+", "close": "b", "content": "json"}, None),
        (
            {
                "open": "(",
                "close": ")",
                "content": "json",
                "transform": {"function": {"name": "{content.tool}", "arguments": "{content.args}"}},
            },
            CallForm("(", ")", "tool", "args"),
        ),
        ({"open": "(", "close": ")", "content": "json", "transform": {"function": {"name": "x"}}}, None),
    ],
)
def test_the_form_of_calls_between_fixed_marks(field: dict[str, Any], form: CallForm | None) -> None:
    template = {"start_anchor": "A", "fields": {"tool_calls": {**field, "repeats": True}}}
    assert call_form(ResponseTemplate.load(template)) == form
