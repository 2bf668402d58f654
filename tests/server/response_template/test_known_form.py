"""Checkpoints without a response template: calls are read in the form in which the chat template writes
them, in whatever pieces they come; what is no whole call stays text."""

import dataclasses
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from models.checkpoint import Checkpoint
from server.loading import _read
from server.reader import Read
from server.response_template.known_form import KnownForm, known_form
from server.response_template.reader import TemplateReader
from server.template import ChatTemplate
from server.tools.form import TAGGED as TAGS
from server.tools.grammar import forced_call, strict_calls
from tests.checkpoints import tiny_llama
from tests.server.chat_client import chunks, post
from tests.server.fakes import Bench, chat
from tests.server.grammar_words import GrammarWords
from tests.server.response_template import chat_templates as written
from tests.server.response_template.examples import CHATML

TEMPLATES = {
    name: getattr(written, name)
    for name in (
        "LISTED",
        "NAMED",
        "NAMED_WITH_IDS",
        "NAMED_WITH_THOUGHTS",
        "OBJECT",
        "PARAMETERS",
        "PARAMETERS_WITH_THOUGHTS",
    )
}
STEPS = (1, 2, 3, 5, 7, 1000)
"""Characters in a piece."""

PROPERTIES = {
    "city": {"type": "string"},
    "days": {"type": "integer"},
    "code": {"type": "string"},
    "tags": {"type": "array"},
    "more": {"type": "object"},
    "sure": {"type": ["boolean", "null"]},
}
FUNCTIONS: list[dict[str, Any]] = [
    {"name": "weather", "parameters": {"type": "object", "properties": PROPERTIES}},
    {"name": "time-now_2", "parameters": {"type": "object"}},
]
TOOLS = [{"type": "function", "function": function} for function in FUNCTIONS]
ARGUMENTS = {
    "city": 'Zürich "Nord" {[<',
    "days": 3,
    "code": "  if x:\n    y = '12'\n",
    "tags": ["a", 1],
    "more": {"a": {"b": None}},
    "sure": True,
}


def known(template: str) -> KnownForm:
    found = known_form(template)
    assert found is not None
    return found


def written_by(template: str, *calls: tuple[str, dict[str, Any]]) -> str:
    """The text of an answer with these calls, as the template repeats it, without what ends it."""
    made = [
        {"id": "abcde1234", "type": "function", "function": {"name": name, "arguments": arguments}}
        for name, arguments in calls
    ]
    asked = {"role": "user", "content": "Q?"}
    whole = ChatTemplate(template).render(
        [asked, {"role": "assistant", "content": "", "tool_calls": made}], add_generation_prompt=False
    )
    before = ChatTemplate(template).render([asked], add_generation_prompt=False)
    answer = whole.removeprefix(before).strip()
    for edge in ("<|start_header_id|>assistant<|end_header_id|>", "<|im_start|>assistant"):
        answer = answer.removeprefix(edge)
    for end in ("</s>", "<|eot_id|>", "<|im_end|>"):
        answer = answer.removesuffix(end)
    return answer.strip()


def read(template: str, text: str, cuts: set[int] | None = None, prompt: str = "") -> Read:
    reader = TemplateReader(known(template).template, prompt, FUNCTIONS)
    edges = sorted({0, len(text)} | {cut for cut in cuts or () if cut < len(text)})
    reads = [reader.push(text[a:b]) for a, b in pairwise(edges)] + [reader.finish()]
    assert reader.num_calls == reader.num_complete == sum(len(one.calls) for one in reads)
    return Read(
        "".join(one.content for one in reads),
        "".join(one.reasoning for one in reads),
        tuple(call for one in reads for call in one.calls),
    )


def calls_in(found: Read) -> list[tuple[str | None, dict[str, Any]]]:
    return [(call.name, json.loads(call.arguments)) for call in found.calls]


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("step", STEPS)
def test_a_call_is_read_back_as_the_template_writes_it(name: str, step: int) -> None:
    text = written_by(TEMPLATES[name], ("weather", ARGUMENTS))
    found = read(TEMPLATES[name], text, set(range(0, len(text), step)))
    assert calls_in(found) == [("weather", ARGUMENTS)]
    assert (found.content, found.reasoning) == ("", "")


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name != "OBJECT"])
@pytest.mark.parametrize("step", STEPS)
def test_several_calls_and_what_is_said_before_them(name: str, step: int) -> None:
    calls = [("weather", {"city": "Bern", "days": 1}), ("time-now_2", {}), ("weather", {"city": "12"})]
    text = "Let me look. \n\n" + written_by(TEMPLATES[name], *calls)
    found = read(TEMPLATES[name], text, set(range(0, len(text), step)))
    assert calls_in(found) == calls
    assert found.content == "Let me look."


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_call_that_is_cut_off_anywhere_is_text(name: str) -> None:
    whole = written_by(TEMPLATES[name], ("weather", {"city": "Bern", "code": "x"}))
    tag = "\n</tool_call>"  # without which it is no less whole
    for length in set(range(1, len(whole))) - {
        len(whole.removesuffix(tag)),
        len(whole.removesuffix(tag)) + 1,
    }:
        found = read(TEMPLATES[name], whole[:length], {length // 2})
        assert (found.content, found.calls) == (whole[:length], ()), whole[:length]


MALFORMED = {
    "no list": ("LISTED", "[TOOL_CALLS] nothing"),
    "no name": ("LISTED", '[TOOL_CALLS] [{"arguments": {}}]'),
    "one of two": ("LISTED", '[TOOL_CALLS] [{"name": "weather", "arguments": {}}, {"nam": 1}]'),
    "text behind": ("LISTED", '[TOOL_CALLS] [{"name": "weather", "arguments": {}}] and more'),
    "no arguments": ("NAMED", "[TOOL_CALLS]weather[ARGS]"),
    "no object": ("NAMED", "[TOOL_CALLS]weather[ARGS][1]"),
    "no name at all": ("NAMED", "[TOOL_CALLS][ARGS]{}"),
    "no mark": ("NAMED", "[TOOL_CALLS]weather{}"),
    "a name that nobody has": ("OBJECT", '{"name": "Bern", "parameters": {"inhabitants": 130000}}'),
    "an object that calls nothing": ("OBJECT", '{"name": "Bern", "days": 3}'),
    "a name that is none": ("OBJECT", '{"name": 7, "parameters": {}}'),
    "two objects": ("OBJECT", '{"name": "weather", "parameters": {}}; {"name": "weather", "parameters": {}}'),
    "not at the beginning": ("OBJECT", 'So: {"name": "weather", "parameters": {}}'),
    "code": ("OBJECT", '<|python_tag|>search.call(query="x")'),
    "a list": ("OBJECT", '[{"name": "weather", "parameters": {}}]'),
    "words between parameters": (
        "PARAMETERS",
        "<tool_call>\n<function=weather>\nwell\n<parameter=city>\nBern\n</parameter>\n</function>\n</tool_call>",
    ),
    "a parameter without end": (
        "PARAMETERS",
        "<tool_call>\n<function=weather>\n<parameter=city>\nBern\n</function>\n</tool_call>",
    ),
    "only the tag": ("PARAMETERS", '<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>'),
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("step", [1, 1000])
def test_what_is_no_call_stays_text(name: str, step: int) -> None:
    template, text = MALFORMED[name]
    found = read(TEMPLATES[template], text, set(range(0, len(text), step)))
    assert (found.content, found.calls) == (text, ())


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("text", ["", " Hello \n", "a [TOOL", "x < y", "<tool_", "\n\n"])
def test_an_answer_without_calls_is_left_as_it_is(name: str, text: str) -> None:
    for cuts in (set(), set(range(len(text)))):
        assert read(TEMPLATES[name], text, cuts) == Read(text)


@pytest.mark.parametrize("name", [name for name in TEMPLATES if not name.startswith("PARAMETERS")])
@pytest.mark.parametrize("step", STEPS)
def test_marks_within_arguments_are_none(name: str, step: int) -> None:
    """Whoever writes a program about calls has them among the arguments."""
    code = 'a = "{}[TOOL_CALLS]weather[ARGS]{}" \\ [TOOL_CALLS] [{"name": "weather"}]\n"[THINK]'
    text = written_by(TEMPLATES[name], ("weather", {"code": code}))
    found = read(TEMPLATES[name], text, set(range(0, len(text), step)))
    assert (calls_in(found), found.content) == ([("weather", {"code": code})], "")


def test_an_object_that_begins_as_no_call_is_told_while_it_comes() -> None:
    for text in ('{"city": "Bern"}', '{ "type": "object"}', '{"names": []}'):
        reader = TemplateReader(known(written.OBJECT).template, "", FUNCTIONS)
        assert reader.push(text).content == text


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("num_calls", [1, 2])
@pytest.mark.parametrize(
    "left_out", [("<tool_call>\n",), ("\n</tool_call>",), ("<tool_call>\n", "\n</tool_call>")]
)
def test_tags_around_a_tag_for_each_argument_may_be_left_out(
    left_out: tuple[str, ...], num_calls: int, step: int
) -> None:
    calls = [("weather", {"city": "Bern"}), ("time-now_2", {})][:num_calls]
    text = written_by(written.PARAMETERS, *calls)
    for tag in left_out:
        text = text.replace(tag, "")
    found = read(written.PARAMETERS, text, set(range(0, len(text), step)))
    assert (calls_in(found), found.content) == (calls, "")


def test_python_s_tag_before_an_object() -> None:
    found = read(written.OBJECT, '<|python_tag|>{"name": "weather", "parameters": {"city": "Bern"}}')
    assert calls_in(found) == [("weather", {"city": "Bern"})]


def test_values_are_what_the_schema_says_and_else_text() -> None:
    text = "<parameter=city>12</parameter>\n<parameter=other>12</parameter>"
    text = f"<function=weather>{text}</function></tool_call>"  # the tag before it is left out at times
    assert calls_in(read(written.PARAMETERS, text)) == [("weather", {"city": "12", "other": "12"})]


@pytest.mark.parametrize("cuts", [set(), set(range(200))], ids=["whole", "letters"])
def test_thoughts_beside_calls(cuts: set[int]) -> None:
    for name, opening, closing in (
        ("NAMED_WITH_THOUGHTS", "[THINK]", "[/THINK]"),
        ("PARAMETERS_WITH_THOUGHTS", "<think>", "</think>"),
    ):
        call = written_by(TEMPLATES[name], ("weather", {"city": "Bern"}))
        found = read(TEMPLATES[name], f"{opening}\nhm\n{closing}\n\nWell.\n{call}", cuts)
        assert (found.reasoning, found.content, len(found.calls)) == ("hm", "Well.", 1)
    begun = read(TEMPLATES[name], "hm</think>Yes", cuts, prompt="<|im_start|>assistant\n<think>\n")
    assert (begun.reasoning, begun.content) == ("hm", "Yes")


def test_other_forms_are_not_taken_for_these() -> None:
    assert known_form(written.TAGGED) is None
    assert known_form("{{ messages }}") is None
    assert known_form("") is None


def served(template: str, text: str) -> Bench:
    made = Bench(text)
    runtime = made.state.serving()
    found = known(template)
    facts = runtime.facts._replace(call_form=found.form)
    made.state.runtime = dataclasses.replace(runtime, response_template=found.template, facts=facts)
    return made


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("is_call", [True, False])
def test_a_stream_adds_up_to_the_whole_answer(name: str, is_call: bool) -> None:
    text = (
        written_by(TEMPLATES[name], ("weather", {"city": "Bern"})) if is_call else "[TOOL_CALLS]<function=x"
    )
    bench = served(TEMPLATES[name], text)
    choice = post(bench, chat(tools=TOOLS)).json()["choices"][0]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks(bench, tools=TOOLS)]
    assert "".join(delta.get("content") or "" for delta in deltas) == (choice["message"]["content"] or "")
    streamed = [call for delta in deltas for call in delta.get("tool_calls", ())]
    made = choice["message"].get("tool_calls", ())
    assert [call["function"] for call in streamed] == [call["function"] for call in made]
    assert (len(made), choice["finish_reason"]) == ((1, "tool_calls") if is_call else (0, "stop"))


@pytest.mark.parametrize("is_list", [True, False], ids=["named", "one"])
def test_a_checkpoint_is_known_by_its_template_for_tools(is_list: bool, tmp_path: Path) -> None:
    directory = tiny_llama(tmp_path)
    path = directory / "tokenizer_config.json"
    named = [
        {"name": "default", "template": "{{ messages }}"},
        {"name": "tool_use", "template": written.NAMED},
    ]
    templates = {"chat_template": named if is_list else written.NAMED}
    path.write_text(json.dumps(json.loads(path.read_text()) | templates))
    front = _read(Checkpoint.open(str(directory)))
    assert front.response_template is not None
    assert front.call_form == known(written.NAMED).form
    assert all(front.response_template.mentions(mark) for mark in MARKS), "as tokens they would not be shown"


def test_a_checkpoint_s_own_response_template_counts_more(tmp_path: Path) -> None:
    directory = tiny_llama(tmp_path)
    path = directory / "tokenizer_config.json"
    told = {"chat_template": written.NAMED, "response_template": CHATML}
    path.write_text(json.dumps(json.loads(path.read_text()) | told))
    assert _read(Checkpoint.open(str(directory))).call_form == TAGS


FORMS = [name for name in TEMPLATES if name.startswith(("LISTED", "NAMED", "OBJECT"))]
MARKS = ("[TOOL_CALLS]", "[ARGS]")


@pytest.mark.parametrize("name", ["LISTED", "NAMED", "OBJECT"])
@pytest.mark.parametrize("num_marks", [0, 2], ids=["spelled", "tokens"])
def test_what_a_grammar_forces_is_read(name: str, num_marks: int, tmp_path: Path) -> None:
    words, found = GrammarWords(tmp_path, MARKS[:num_marks]), known(TEMPLATES[name])
    assert found.form is not None
    one = {
        "LISTED": '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Bern"}}]',
        "NAMED": '[TOOL_CALLS]weather[ARGS]{"city": "Bern"}',
        "OBJECT": '{"name": "weather", "parameters": {"city": "Bern"}}',
    }[name]
    for grammar in (
        forced_call(FUNCTIONS, True, words.tag_ids, found.form),
        forced_call(FUNCTIONS, False, words.tag_ids, found.form),
        strict_calls(FUNCTIONS, words.tag_ids, found.form),
    ):
        assert words.allows(grammar, one)
        assert not words.allows(grammar, one.replace("weather", "nobody"))
        assert not words.allows(grammar, one.replace('"Bern"', "7"))
        assert words.allows(grammar, "Well.") is grammar.definition.startswith(
            ("start: piece", "start: body")
        )
    assert calls_in(read(TEMPLATES[name], one)) == [("weather", {"city": "Bern"})]


@pytest.mark.parametrize("name", ["LISTED", "NAMED"])
def test_calls_side_by_side_only_where_they_may_be(name: str, tmp_path: Path) -> None:
    words, found = GrammarWords(tmp_path, MARKS), known(TEMPLATES[name])
    assert found.form is not None
    two = {
        "LISTED": '[TOOL_CALLS] [{"name": "time-now_2", "arguments": {}}, '
        '{"name": "weather", "arguments": {}}]',
        "NAMED": "[TOOL_CALLS]time-now_2[ARGS]{}[TOOL_CALLS]weather[ARGS]{}",
    }[name]
    for parallel in (True, False):
        assert words.allows(forced_call(FUNCTIONS, parallel, words.tag_ids, found.form), two) is parallel
    assert words.allows(strict_calls(FUNCTIONS, words.tag_ids, found.form), two)
    assert len(read(TEMPLATES[name], two).calls) == 2


@pytest.mark.parametrize("name", FORMS)
def test_a_forced_call_through_the_api(name: str) -> None:
    text = written_by(TEMPLATES[name], ("weather", {"city": "Bern"}))
    bench = served(TEMPLATES[name], text)
    choice = post(bench, chat(tools=TOOLS, tool_choice="required")).json()["choices"][0]
    assert [made["function"]["name"] for made in choice["message"]["tool_calls"]] == ["weather"]
    assert choice["finish_reason"] == "tool_calls"
    grammar = bench.engine.requests[0].grammar
    assert grammar is not None
    assert TAGS.opening not in grammar.definition


@pytest.mark.parametrize("name", FORMS)
def test_structured_text_beside_tools(name: str) -> None:
    """Where calls have no mark, nothing would tell them from structured text: there they get the common
    tags."""
    answer = '{"name": "weather", "parameters": {}}'
    asked = chat(tools=TOOLS, response_format={"type": "json_object"})
    choice = post(served(TEMPLATES[name], answer), asked).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (answer, "stop")
    call = written_by(TEMPLATES[name], ("weather", {}))
    if name == "OBJECT":
        call = '<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>'
    choice = post(served(TEMPLATES[name], call), asked).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "tool_calls")
