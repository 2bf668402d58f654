"""Answers read by a response template: as `transformers` reads them, in whatever pieces they come."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils.chat_parsing import parse_response

from server.reader import Read
from server.response_template.casts import cast_arguments
from server.response_template.reader import THOUGHTS, TemplateReader
from server.response_template.search_time import SearchTime
from server.response_template.template import ResponseTemplate
from tests.server.response_template.examples import (
    CHANNELS,
    CHATML,
    EXAMPLES,
    PYTHON_CALLS,
    TOOLS,
    Example,
    call,
)

FUNCTIONS = [one["function"] for one in TOOLS]


def read(example: Example, cuts: set[int] | None = None, functions: Any = FUNCTIONS) -> Read:
    reader = TemplateReader(ResponseTemplate.load(example.template), example.prompt, functions)
    text = example.text
    edges = sorted({0, len(text)} | {cut for cut in cuts or () if cut < len(text)})
    reads = [reader.push(text[a:b]) for a, b in pairwise(edges)] + [reader.finish()]
    calls = tuple(delta for one in reads for delta in one.calls)
    assert reader.num_calls == reader.num_complete == len(calls)
    return Read("".join(one.content for one in reads), "".join(one.reasoning for one in reads), calls)


def message(found: Read) -> dict[str, Any]:
    calls = [{"name": one.name, "arguments": json.loads(one.arguments)} for one in found.calls]
    return {"content": found.content, "reasoning": found.reasoning, "calls": calls}


@pytest.mark.parametrize("name", EXAMPLES)
@given(cuts=st.sets(st.integers(0, 250)))
def test_as_transformers_reads_it(name: str, cuts: set[int]) -> None:
    example = EXAMPLES[name]
    theirs = parse_response(example.text, example.template, prefix=example.prompt, tools=TOOLS)
    thoughts = [theirs[field] for field in THOUGHTS if field in theirs]
    expected = {
        "content": theirs.get("content", ""),
        "reasoning": "".join(thoughts),
        "calls": [one["function"] for one in _list(theirs.get("tool_calls", []))],
    }
    assert any(expected.values())
    assert message(read(example, cuts)) == expected


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


FRAGMENTS = [
    *(
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<|im_end|>",
        "<|calls|>",
        "<|/calls|>",
        "[f()]",
        " ",
    ),
    *(
        "<|channel|>final<|message|>",
        "<|channel|>analysis<|message|>",
        "<|end|>",
        "<|call|>",
        "\n",
        "text",
        "<",
    ),
    *(
        "<|channel|>commentary to=functions.f<|message|>",
        '{"name": "f", "arguments": {}}',
        "{}",
        "ü",
        "nonsense",
    ),
]


@pytest.mark.parametrize("template", [CHATML, CHANNELS, PYTHON_CALLS], ids=["chatml", "channels", "python"])
@given(fragments=st.lists(st.sampled_from(FRAGMENTS), max_size=10))
def test_any_text_is_read_alike_in_any_pieces(template: dict[str, Any], fragments: list[str]) -> None:
    """And calls as by `transformers`, wherever it finds no fault; there it raises."""
    example = Example(template, "".join(fragments))
    whole, letters = read(example), read(example, set(range(len(example.text))))
    assert message(whole) == message(letters)
    try:
        theirs = parse_response(example.text, template, prefix="")
    except (ValueError, KeyError):
        return
    if not template["fields"]["tool_calls"].get("repeats"):
        return
    expected = [one["function"] for one in theirs.get("tool_calls", [])]
    if all("name" in function for function in expected):
        assert message(whole)["calls"] == expected


MALFORMED = {
    "no JSON": (CHATML, "a<tool_call>{nonsense}</tool_call> b"),
    "no name": (CHATML, '<tool_call>{"arguments": {}}</tool_call>'),
    "a list for arguments": (CHATML, '<tool_call>{"name": "f", "arguments": [1]}</tool_call>'),
    "no number of JSON's": (CHATML, '<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>'),
    "half of a surrogate pair": (CHATML, r'<tool_call>{"name": "\ud800", "arguments": {}}</tool_call>'),
    "half of a pair in text": (CHATML, r'<tool_call>{"name": "f", "arguments": "\ud800"}</tool_call>'),
    "nested for ever": (CHATML, '<tool_call>{"name": "f", "arguments": ' + '{"a":' * 20_000),
    "cut off": (CHATML, '<tool_call>{"name": "f", "argu'),
    "no calls of Python": (PYTHON_CALLS, "<|calls|>[f(1)]<|/calls|>"),
    "one good call of two": (PYTHON_CALLS, '<|calls|>[f(), g(a=exec("x"))]<|/calls|>'),
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("step", [1, 10**6])
def test_what_is_no_call_is_given_back_as_text(name: str, step: int) -> None:
    template, text = MALFORMED[name]
    cuts = set(range(0, 200, step))
    found = read(Example(template, text), cuts)
    assert (found.content.replace(" ", ""), found.calls) == (text.replace(" ", ""), ())
    assert not _is_message_to_transformers(template, text)


def _is_message_to_transformers(template: dict[str, Any], text: str) -> bool:
    try:
        calls = parse_response(text, template, prefix="")["tool_calls"]
        json.dumps(calls, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError, KeyError):
        return False
    functions = [one["function"] for one in calls]
    return all("name" in function and isinstance(function["arguments"], dict) for function in functions)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("object", '{"a": 1e999}'),
        ("array", "[NaN]"),
        ("integer", "1_000"),
        ("integer", "\u0663"),
        ("integer", "1e999"),
        ("number", "1_0.5"),
        ("number", "\u0663"),
        ("number", "1e999"),
        ("number", "0x10"),
    ],
)
def test_what_json_can_not_hold_stays_text(kind: str, text: str) -> None:
    assert cast_arguments({"a": text}, {"properties": {"a": {"type": kind}}}) == {"a": text}


@pytest.mark.parametrize("step", [1, 3, 10**6])
@pytest.mark.parametrize("end", ["", "</tool_call>"], ids=["open", "closed"])
def test_a_mark_in_a_string_is_none(step: int, end: str) -> None:
    body = {"a": '</tool_call>\\" </tool_call> \\', "b": ["</tool_call>"]}
    made = json.dumps({"name": "f", "arguments": body})
    cuts = set(range(0, 200, step))
    found = read(Example(CHATML, f"a<tool_call>{made}{end}"), cuts)
    assert message(found)["calls"] == [{"name": "f", "arguments": body}]
    cut = f"<tool_call>{made}".rpartition("</tool_call>")[0]
    for text in (cut, cut + "</tool_call>"):  # whose string has no end
        assert read(Example(CHATML, text), cuts) == Read(text)


def test_an_end_of_the_text_within_a_string_is_one() -> None:
    """Of a pattern that matches nothing but the end, which no text can take."""
    fields = {"content": {}, "tool_calls": {"open": "<call>", "close_pattern": r"\Z", "content": "json"}}
    text = '<call>{"name": "f'
    assert read(Example({"start_anchor": "A", "fields": fields}, text)) == Read(text)


def test_what_nothing_but_its_name_marks_as_a_call_must_name_a_function() -> None:
    field = {"open_pattern": r"\A(?=\{)", "content": "json"}
    template = {"start_anchor": "A", "fields": {"content": {}, "tool_calls": field}}
    for name, is_call in (("f", True), ("nobody", False)):
        found = read(Example(template, json.dumps({"name": name, "arguments": {}})))
        assert (len(found.calls), not found.content) == (int(is_call), is_call)


def test_a_long_integer_keeps_its_digits() -> None:
    assert cast_arguments({"a": "9" * 30}, {"properties": {"a": {"type": "integer"}}}) == {"a": 10**30 - 1}


def test_a_schema_that_is_none_casts_nothing() -> None:
    assert cast_arguments({"a": "7"}, {"properties": {"a": {"anyOf": 5, "type": 3}}}) == {"a": "7"}


def test_half_of_a_surrogate_pair_in_a_field_of_json_leaves_its_text() -> None:
    template = {"start_anchor": "A", "fields": {"content": {"content": "json"}}}
    assert read(Example(template, r'"\ud800"')).content == r'"\ud800"'


def test_half_of_a_surrogate_pair_among_arguments_stays_an_escape() -> None:
    (found,) = read(Example(CHATML, call("f", a="\ud800"))).calls
    assert found.arguments == r'{"a": "\ud800"}'


def test_calls_are_text_where_none_may_be_made() -> None:
    text = "I look. " + call("f", a=1)
    found = read(Example(CHATML, text), functions=None)
    assert found.content.replace(" ", "") == text.replace(" ", "")
    assert not found.calls


def test_texts_of_a_field_that_comes_again_are_strung_together() -> None:
    assert read(Example(CHATML, "one " + call("f") + " two")).content == "onetwo"


def test_it_knows_when_the_model_thinks() -> None:
    reader = TemplateReader(ResponseTemplate.load(CHATML), "<|im_start|>assistant\n<think>\n", None)
    assert reader.inside_thought
    reader.push("x</think>")
    assert not reader.inside_thought


def test_a_prompt_without_the_anchor_is_not_read() -> None:
    assert message(read(Example(CHATML, "yes", "user typed <think> here")))["content"] == "yes"


def test_text_is_held_back_no_longer_than_it_could_be_a_mark() -> None:
    reader = TemplateReader(ResponseTemplate.load(CHATML), "", FUNCTIONS)
    assert reader.push("Hello <tool").content == "Hello"
    assert reader.push("s> x").content == " <tools> x"


ENDLESS = {"start_anchor": "A", "fields": {"content": {"close_pattern": r"(?:x+x+)+y"}}}
NOWHERE = {
    "start_anchor": "A",
    "fields": {"content": {"open_pattern": "(?=b)", "close_pattern": "(?=b)"}, "thinking": {}},
}
HOLDING = {"start_anchor": "A", "fields": {"content": {"close_pattern": "a.*z"}}}


@pytest.mark.parametrize(
    ("template", "text"),
    [(ENDLESS, "x" * 60), (NOWHERE, "abc"), (HOLDING, "ab" * 40_000)],
    ids=["takes for ever", "never goes on", "holds everything back"],
)
def test_a_template_that_can_not_be_followed_loses_nothing(template: dict[str, Any], text: str) -> None:
    reader = TemplateReader(ResponseTemplate.load(template), "", None, SearchTime(0.01))
    reads = [reader.push(text), reader.push(" and"), reader.push(" more"), reader.finish()]
    assert "".join(one.reasoning + one.content for one in reads) == text + " and more"
    assert not reader.inside_thought


def test_a_row_of_blanks_is_not_searched_again_for_ever() -> None:
    reader = TemplateReader(ResponseTemplate.load(CHATML), "", None)
    reader.push("a")
    for _ in range(100):
        reader.push(" " * 100)
        assert len(reader._regions.rest) <= 5000


def test_all_searches_of_an_answer_share_its_time() -> None:
    ticks = iter(range(10**6))
    time = SearchTime(4, lambda: next(ticks))  # each search takes a second
    reader = TemplateReader(ResponseTemplate.load(CHATML), "", FUNCTIONS, time)
    reader.push("a")
    assert reader.push(call("f")).content == call("f")
    assert next(ticks) == 2 * 5
    assert reader.push("<think>").content == "<think>"
    assert next(ticks) == 2 * 5 + 1


@pytest.mark.parametrize(("seconds", "num_calls"), [(9, 1), (2.5, 0)])
def test_values_take_of_the_answers_time_too(seconds: float, num_calls: int) -> None:
    field = {"open": "(", "content": "json", "content_args": {"unquoted_keys": True}}
    template = ResponseTemplate.load({"start_anchor": "A", "fields": {"tool_calls": field}})
    ticks = iter(range(100))  # each search takes a second
    reader = TemplateReader(template, "", FUNCTIONS, SearchTime(seconds, lambda: next(ticks)))
    text = '({name: "f"}'
    reader.push(text)
    found = reader.finish()
    assert (len(found.calls), found.content) == (num_calls, "" if num_calls else text)


def test_quick_searches_use_up_nothing() -> None:
    time = SearchTime(1e-5, iter([i * 1e-5 for i in range(100)]).__next__)
    assert [time.spend(lambda timeout: timeout) for _ in range(50)] == [1e-5] * 50


WHOLE = {"start_anchor": "A", "fields": {"tool_calls": {"open": "<", "close_pattern": "a.*z"}}}


@pytest.mark.parametrize(
    ("template", "prompt"),
    [(HOLDING, "Aabab"), (HOLDING, "Ab"), (WHOLE, "A<bab")],
    ids=["held", "told", "a call"],
)
def test_what_the_prompt_holds_is_no_content_where_reading_fails(
    template: dict[str, Any], prompt: str
) -> None:
    reader = TemplateReader(ResponseTemplate.load(template), prompt, FUNCTIONS)
    text = "ab" * 4000
    told = [reader.push(text[:10]), reader.push(text[10:]), reader.push(" more"), reader.finish()]
    assert "".join(one.content for one in told) == text + " more"


@pytest.mark.parametrize(
    ("template", "prompt", "text"),
    [
        (HOLDING, "Aabab", "xy"),
        (HOLDING, "Axx ", "xy"),
        (CHATML, "<|im_start|>assistant\nHi <tool", "s> x"),
        (CHATML, '<|im_start|>assistant\n<tool_call>{"name', "nonsense</tool_call>"),
    ],
    ids=["may close", "a blank", "may open", "a call"],
)
@pytest.mark.parametrize("functions", [FUNCTIONS, None], ids=["tools", "no tools"])
def test_what_the_prompt_holds_is_no_content(
    template: dict[str, Any], prompt: str, text: str, functions: Any
) -> None:
    assert read(Example(template, text, prompt), set(range(20)), functions).content == text


def test_a_long_answer_after_a_long_prompt_loses_nothing() -> None:
    text = "0123456789" * 2000
    example = Example(CHATML, text, "<|im_start|>assistant\n" + "p" * 6000)
    assert read(example, set(range(0, len(text), 1000))).content == text


def test_a_long_answer_is_not_kept() -> None:
    reader = TemplateReader(ResponseTemplate.load(CHANNELS), "", None)
    reader.push("<|channel|>final<|message|>")
    for _ in range(1000):
        assert reader.push("0123456789" * 10).content
    assert len(reader._regions._text) < 10_000


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, "7", 7),
        ({"type": "integer"}, "7.0", 7),
        ({"type": "integer"}, "7.5", "7.5"),
        ({"type": "number"}, "1.50", 1.5),
        ({"type": "number"}, "1e3", 1000),
        ({"type": "number"}, "inf", "inf"),
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "yes", "yes"),
        ({"type": ["null", "integer"]}, "null", None),
        ({"type": "integer", "nullable": True}, "None", None),
        ({"anyOf": [{"type": "array"}, {"type": "object"}]}, '{"a": 1}', {"a": 1}),
        ({"type": "object"}, "[1]", "[1]"),
        ({"type": "string"}, "7", "7"),
        ({"type": ["string", "integer"]}, "7", 7),
        ({}, "7", "7"),
        ("nonsense", "7", "7"),
        ({"type": "integer"}, ["1", "x"], [1, "x"]),
        ({"type": "array"}, ["1"], ["1"]),
        ({"type": "integer"}, 7.5, 7.5),
    ],
)
def test_arguments_that_came_as_text_get_their_type(schema: Any, text: Any, value: Any) -> None:
    assert cast_arguments({"a": text}, {"properties": {"a": schema}}) == {"a": value}
    template = {
        "start_anchor": "A",
        "fields": {"tool_calls": {"open": "(", "close": ")", "content": "json", "repeats": True}},
    }
    body = json.dumps({"function": {"name": "f", "arguments": {"a": text}}})
    tools = [{"name": "f", "parameters": {"properties": {"a": schema}}}]
    theirs = parse_response(f"({body})", template, prefix="", tools=tools)
    assert theirs["tool_calls"][0]["function"]["arguments"] == {"a": value}
