"""Tool calls: read from text in any pieces, streamed as clients join them, and forced by a grammar."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llguidance import LLMatcher

from server.grammar_worker import fault
from server.markers import MAX_HELD
from server.tools import parser as parser_module
from server.tools.grammar import TAGS, forced_call, strict_calls
from server.tools.parser import ToolCallParser
from tests.server.chat_client import chunks, post, refused
from tests.server.fakes import Bench, chat
from tests.server.grammar_words import GrammarWords
from tests.server.live import serving

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
TIME = {"type": "function", "function": {"name": "time", "description": "now"}}


def call(name: str, arguments: Any) -> str:
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


CASES = [
    ("plain text", "plain text", []),
    (call("f", {"a": 1}), "", [("f", {"a": 1})]),
    (
        "I look. "
        + call("f", {"a": '}{\\"</tool_call>'})
        + "\n"
        + call("g", {})
        + call("h", {"ü": [1, "日本"]}),
        "I look.",
        [("f", {"a": '}{\\"</tool_call>'}), ("g", {}), ("h", {"ü": [1, "日本"]})],
    ),
    ('<tool_call>{"arguments": {"x": 1}, "name": "f"}</tool_call>', "", [("f", {"x": 1})]),
    ('<tool_call>{"name": "f"}</tool_call>', "", [("f", {})]),
    ('<tool_call>{"name": "f", "arguments": "{\\"x\\": 1}"}</tool_call>', "", [("f", {"x": 1})]),
    (
        r'<tool_call>{"name": "f", "arguments": "\ud800"}</tool_call>',
        r'<tool_call>{"name": "f", "arguments": "\ud800"}</tool_call>',
        [],
    ),
    (
        '<tool_call>{"arguments": {"x": 1e999}, "name": "f"}</tool_call>',
        '<tool_call>{"arguments": {"x": 1e999}, "name": "f"}</tool_call>',
        [],
    ),
    ('<tool_call>{"arguments": {}, "name": "f"}', "", [("f", {})]),
    (
        '<tool_call>{"arguments": [-1e999], "name": "f"}',
        '<tool_call>{"arguments": [-1e999], "name": "f"}',
        [],
    ),
    ('<tool_call>{"name": "f"', '<tool_call>{"name": "f"', []),
    ('<tool_call>{"name": "f", "arguments": {}}', "", [("f", {})]),
    ("<tool_call>nonsense</tool_call> after", "<tool_call>nonsense</tool_call> after", []),
    ("a < b <tool", "a < b <tool", []),
]


@pytest.mark.parametrize(("text", "content", "calls"), CASES)
@given(cuts=st.sets(st.integers(0, 200)))
def test_calls_are_read_alike_in_any_pieces(
    text: str, content: str, calls: list[Any], cuts: set[int]
) -> None:
    parser = ToolCallParser()
    edges = sorted({0, len(text)} | {cut for cut in cuts if cut < len(text)})
    parsed = [parser.push(text[a:b]) for a, b in pairwise(edges)]
    parsed.append(parser.finish())
    assert "".join(piece.content for piece in parsed) == content
    deltas = [delta for piece in parsed for delta in piece.calls]
    names = [delta.name for delta in deltas if delta.id is not None]
    assert names == [name for name, _ in calls]
    assert [d.number for d in deltas] == sorted(d.number for d in deltas)
    for index, (_, arguments) in enumerate(calls):
        assert json.loads("".join(d.arguments for d in deltas if d.number == index)) == arguments


class CountedHead:
    """The pattern of a call's head, and how many characters it was shown."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self.num_shown = 0

    def match(self, text: str, start: int = 0, end: int = 1 << 30) -> re.Match[str] | None:
        self.num_shown += min(len(text), end) - start
        return self._pattern.match(text, start, end)


def test_what_a_call_never_becomes_is_not_searched_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def num_shown(length: int) -> int:
        counted = CountedHead(parser_module._HEAD)
        with monkeypatch.context() as patch:
            patch.setattr(parser_module, "_HEAD", counted)
            parser, text = ToolCallParser(), '<tool_call>{"name": "' + "x" * length
            for char in text:
                assert parser.push(char) == ("", [])
                assert parser._num_searched == len(parser._held) or parser._state == "text"
            assert parser.finish().content == text
        return counted.num_shown

    assert num_shown(5_000) == num_shown(20_000) > 0


@pytest.mark.parametrize(
    "keys", ['"arguments": {"a": "%s"}, "name": "f"', '"name": "f", "arguments": {"a": "%s"}']
)
@pytest.mark.parametrize("size", [1, 1000, 20_000])
def test_long_calls_in_any_order_of_keys_are_calls(keys: str, size: int) -> None:
    text = "<tool_call>{" + keys % ("x" * 10_000) + "}</tool_call>"
    parser = ToolCallParser()
    deltas = [d for start in range(0, len(text), size) for d in parser.push(text[start : start + size]).calls]
    assert json.loads("".join(delta.arguments for delta in deltas)) == {"a": "x" * 10_000}


@pytest.mark.parametrize(
    ("begun", "told"),
    [("", "\n" * 10_000), ("Hello", "\n" * 10_000), (call("f", {}).removesuffix("</tool_call>"), "")],
)
def test_blanks_are_not_held_without_end(begun: str, told: str) -> None:
    parser = ToolCallParser()
    parser.push(begun)
    found = ""
    for _ in range(10_000):
        found += parser.push("\n").content
        assert len(parser._held) <= MAX_HELD
    assert found + parser.finish().content == told


def test_calls_are_streamed_as_the_official_client_joins_them() -> None:
    bench = Bench(
        call("weather", {"city": "Zürich"})
        + "\n"
        + call("time", {})
        + "\n"
        + call("weather", {"city": "東京"})
    )
    with serving(bench) as port:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x", max_retries=0)
        with client.chat.completions.stream(**chat(tools=[WEATHER, TIME], n=1)) as events:
            for _ in events:
                pass
            final = events.get_final_completion()
    (choice,) = final.choices
    assert choice.finish_reason == "tool_calls"
    calls = choice.message.tool_calls or []
    assert [(c.function.name, json.loads(c.function.arguments)) for c in calls] == [
        ("weather", {"city": "Zürich"}),
        ("time", {}),
        ("weather", {"city": "東京"}),
    ]
    assert all(c.id.startswith("call_") for c in calls)


def test_whole_answer_with_calls_has_null_content() -> None:
    bench = Bench(call("time", {}))
    choice = post(bench, chat(tools=[TIME])).json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "time", "arguments": "{}"}
    assert bench.prompts.seen[0]["tools"] == [TIME]


def test_only_one_call_where_calls_may_not_be_parallel() -> None:
    bench = Bench(call("time", {}) + call("time", {}))
    found = chunks(bench, tools=[TIME], parallel_tool_calls=False)
    ids = [
        d["id"] for c in found for x in c["choices"] for d in x["delta"].get("tool_calls", []) if d.get("id")
    ]
    assert len(ids) == 1
    assert found[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert (len(bench.engine.stopped), bench.engine.num_aborted) == (1, 0)


def test_none_neither_offers_nor_reads_tools() -> None:
    bench = Bench(call("time", {}))
    choice = post(bench, chat(tools=[TIME], tool_choice="none")).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (call("time", {}), "stop")
    assert bench.prompts.seen[0]["tools"] is None


ALLOWED = {
    "type": "allowed_tools",
    "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "time"}}]},
}


@pytest.mark.parametrize(
    ("choice", "present", "absent"),
    [
        ("required", ["weather", "time"], []),
        ({"type": "function", "function": {"name": "time"}}, ["time"], ["weather"]),
        (ALLOWED, ["time"], ["weather"]),
    ],
)
def test_a_forced_call_has_a_grammar(choice: Any, present: list[str], absent: list[str]) -> None:
    bench = Bench(call("time", {}))
    assert post(bench, chat(tools=[WEATHER, TIME], tool_choice=choice)).status_code == 200
    grammar = bench.engine.requests[0].grammar
    assert grammar is not None
    assert all(name in grammar.definition for name in present)
    assert not any(name in grammar.definition for name in absent)


def test_the_grammar_is_one_that_the_engine_can_read() -> None:
    functions: list[Any] = [WEATHER["function"], TIME["function"]]
    for parallel in (False, True):
        grammar = forced_call(functions, parallel)
        assert fault(grammar.kind, grammar.definition) == ""
        assert LLMatcher.validate_grammar(LLMatcher.grammar_from_lark(grammar.definition)) == ""


def strict(tool: dict[str, Any], value: bool = True) -> dict[str, Any]:
    return {"type": "function", "function": {**tool["function"], "strict": value}}


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("no call at all <b> <tool_cal", True),
        ("<think>hm</think> yes", True),
        (call("weather", {"city": "Bern"}) + " then\n" + call("time", {}), True),
        ('a <tool_call>\n{"name": "nobody"', False),
        ('<tool_call>\n{"name": "weather", "arguments": {}', False),
        ('<tool_call>\n{"name": "weather", "arguments": {"city": 1', False),
        ("<tool_call>nonsense", False),
    ],
)
@pytest.mark.parametrize("num_tags", [0, 2, 4])
def test_strict_calls_are_free_text_until_a_call_begins(
    text: str, allowed: bool, num_tags: int, tmp_path: Path
) -> None:
    """Whether the tags of calls and thoughts are single tokens of the model or not."""
    words = GrammarWords(tmp_path, TAGS[:num_tags])
    grammar = strict_calls([WEATHER["function"], TIME["function"]], words.tag_ids)
    assert words.allows(grammar, text) is allowed


def test_strict_under_auto_binds_the_form_of_calls() -> None:
    bench = Bench("Hello " + call("time", {}))
    choice = post(bench, chat(tools=[strict(WEATHER), TIME])).json()["choices"][0]
    assert choice["message"]["content"] == "Hello"
    assert len(choice["message"]["tool_calls"]) == 1
    grammar = bench.engine.requests[0].grammar
    assert grammar is not None
    assert all(word in grammar.definition for word in ("lazy", "weather", "time"))
    relaxed = Bench()
    post(relaxed, chat(tools=[strict(WEATHER, False), TIME]))
    assert relaxed.engine.requests[0].grammar is None


def test_a_strict_tool_with_an_impossible_schema_is_refused() -> None:
    bad = {"type": "function", "function": {"name": "f", "parameters": {"type": "nonsense"}, "strict": True}}
    assert refused(Bench(), chat(tools=[bad]))["param"] == "tools"


def test_a_forced_call_with_an_impossible_schema_is_refused() -> None:
    bad = {"type": "function", "function": {"name": "f", "parameters": {"type": "nonsense"}}}
    assert refused(Bench(), chat(tools=[bad], tool_choice="required"))["param"] == "tools"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "nonsense"}, "Invalid type: nonsense"),
        ({"$ref": "#/nope"}, "Pointer '/nope' does not exist"),
        (
            {"properties": {"a": {"type": "string", "pattern": "(?=x)"}}},
            "regex parse error: (?=x) ^^^ error: look",
        ),
    ],
)
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_what_is_wrong_with_a_schema_is_said_without_the_grammar_around_it(
    schema: dict[str, Any], reason: str, choice: str
) -> None:
    bad = {"type": "function", "function": {"name": "f", "parameters": schema, "strict": True}}
    message = refused(Bench(), chat(tools=[TIME, bad, WEATHER], tool_choice=choice))["message"]
    assert message.startswith(f"tools: `f` can't be enforced: {reason}")
    assert not any(word in message for word in ("body_", "arguments_", "%json", "x-guidance", " | "))


def test_a_template_without_tools_refuses_them() -> None:
    assert refused(Bench(supports_tools=False), chat(tools=[TIME]))["param"] == "tools"


def test_the_conversation_reaches_the_template() -> None:
    bench = Bench()
    turn = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "time", "arguments": '{"a": 1}'}}
        ],
    }
    messages = [
        {"role": "developer", "content": "d"},
        turn,
        {"role": "tool", "tool_call_id": "c1", "name": "time", "content": "12"},
    ]
    assert post(bench, {"model": "bytes", "messages": messages, "tools": [TIME]}).status_code == 200
    seen = bench.prompts.seen[0]["messages"]
    assert seen[1]["tool_calls"][0]["function"]["arguments"] == {"a": 1}
    assert seen[2] == {"role": "tool", "content": "12", "tool_call_id": "c1"}
