"""Tools beside a structured answer: one grammar for either, and its beginning says which it is."""

import json
from pathlib import Path
from typing import Any

import openai
import pydantic
import pytest

from engine.messages import Grammar
from server.reader import CallsOrAnswer, TagReader
from server.tools.grammar import TAGS, calls_or_answer
from tests.server.chat_client import chunks, joined, post, refused
from tests.server.fakes import Bench, chat, say
from tests.server.grammar_words import GrammarWords
from tests.server.live import serving
from tests.server.response_template.examples import CHANNELS, CHATML, LOOSE_JSON
from tests.server.response_template.test_served import bench as templated
from tests.server.test_responses import TOOL, body
from tests.server.test_responses import post as post_response
from tests.server.test_structured import schema_format
from tests.server.test_tools import TIME, WEATHER, call, strict

SCHEMA = {
    "type": "object",
    "properties": {"x": {"type": "string"}},
    "required": ["x"],
    "additionalProperties": False,
}
FORMAT = schema_format(SCHEMA)
ANSWER = '{"x": "<think> <tool_call> </think>"}'
CALLED = call("weather", {"city": "Bern"})


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ('{"x": "<b> [1]"}', True),
        (CALLED, True),
        (CALLED + "\n" + call("time", {}), True),
        (CALLED + '{"x": ""}', False),
        ("Well", False),
        ('{"y": ', False),
        ('<tool_call>\n{"name": "nobody"', False),
        ('<tool_call>\n{"name": "weather", "arguments": {}', False),
    ],
)
@pytest.mark.parametrize("num_tags", [0, 2])
def test_the_grammar_allows_calls_or_the_answer(
    text: str, allowed: bool, num_tags: int, tmp_path: Path
) -> None:
    """Whether the tags of calls are single tokens of the model or not."""
    words = GrammarWords(tmp_path, TAGS[:num_tags])
    functions: list[Any] = [WEATHER["function"], TIME["function"]]
    grammar = calls_or_answer(functions, True, Grammar("json_schema", json.dumps(SCHEMA)), words.tag_ids)
    assert words.allows(grammar, text) is allowed


@pytest.mark.parametrize("offered", [[WEATHER, TIME], [strict(WEATHER), TIME]], ids=["loose", "strict"])
@pytest.mark.parametrize("response_format", [FORMAT, {"type": "json_object"}], ids=lambda f: f["type"])
@pytest.mark.parametrize("template", [None, CHATML], ids=["tags", "template"])
def test_under_auto_either_is_read(template: Any, response_format: Any, offered: list[Any]) -> None:
    def ask(text: str) -> Any:
        served = templated(text, template) if template else Bench(text)
        asked = {"tools": offered, "response_format": response_format}
        whole = post(served, chat(**asked)).json()["choices"][0]
        grammar = served.engine.requests[0].grammar
        assert grammar is not None
        assert "start: calls | answer" in grammar.definition
        found = chunks(served, **asked)
        assert joined(found) == (whole["message"]["content"] or "")
        assert found[-1]["choices"][0]["finish_reason"] == whole["finish_reason"]
        return whole

    answered = ask(ANSWER)
    assert (answered["message"]["content"], answered["finish_reason"]) == (ANSWER, "stop")
    assert not answered["message"].keys() & {"tool_calls", "reasoning_content"}
    called = ask(CALLED + "\n" + call("time", {}))
    assert (called["message"]["content"], called["finish_reason"]) == (None, "tool_calls")
    assert [made["function"]["name"] for made in called["message"]["tool_calls"]] == ["weather", "time"]


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "time"}}])
def test_a_forced_call_wins(choice: Any) -> None:
    bench = Bench(call("time", {}))
    answer = post(bench, chat(tools=[TIME], tool_choice=choice, response_format=FORMAT)).json()
    assert answer["choices"][0]["finish_reason"] == "tool_calls"
    alone = Bench(call("time", {}))
    post(alone, chat(tools=[TIME], tool_choice=choice))
    assert bench.engine.requests[0].grammar == alone.engine.requests[0].grammar


def test_without_calls_only_the_form_is_left() -> None:
    bench, alone = Bench(ANSWER), Bench(ANSWER)
    answer = post(bench, chat(tools=[TIME], tool_choice="none", response_format=FORMAT)).json()
    assert answer["choices"][0]["message"]["content"] == ANSWER
    post(alone, chat(response_format=FORMAT))
    assert bench.engine.requests[0].grammar == alone.engine.requests[0].grammar


def test_only_one_call_where_calls_may_not_be_parallel() -> None:
    bench = Bench(call("time", {}) * 2)
    asked = chat(tools=[TIME], response_format=FORMAT, parallel_tool_calls=False)
    choice = post(bench, asked).json()["choices"][0]
    assert (len(choice["message"]["tool_calls"]), choice["finish_reason"]) == (1, "tool_calls")
    grammar = bench.engine.requests[0].grammar
    assert grammar is not None
    assert "{0," not in grammar.definition


@pytest.mark.parametrize("template", [CHANNELS, LOOSE_JSON])
def test_a_form_of_calls_that_no_grammar_enforces_is_refused(template: Any) -> None:
    asked = chat(tools=[TIME], response_format=FORMAT)
    error = refused(templated(ANSWER, template), asked)
    assert (error["param"], error["code"]) == ("tools", "unsupported_parameter")
    for choice in ("required", "none"):
        assert post(templated(ANSWER, template), asked | {"tool_choice": choice}).status_code == 200


def test_whichever_is_at_fault_is_named() -> None:
    bad = {"type": "nonsense"}
    tool = {"type": "function", "function": {"name": "f", "parameters": bad}}
    assert refused(Bench(), chat(tools=[TIME, tool], response_format=FORMAT))["param"] == "tools"
    error = refused(Bench(), chat(tools=[TIME], response_format=schema_format(bad)))
    assert error["param"] == "response_format.json_schema.schema"
    assert error["message"].endswith("can't be enforced: Invalid type: nonsense")


@pytest.mark.parametrize("answer", [ANSWER, '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'])
def test_a_response_is_either_too(answer: str) -> None:
    text = {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}
    response = post_response(Bench(answer), body(tools=[TOOL], text=text)).json()
    (item,) = response["output"]
    if answer == ANSWER:
        assert item["content"][0]["text"] == ANSWER
    else:
        assert (item["type"], item["name"]) == ("function_call", "f")
    streamed = post_response(Bench(answer), body(tools=[TOOL], text=text, stream=True)).text
    assert "response.completed" in streamed


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize("text", ["", "<tool", "<tool_tip>", " " + CALLED, '"<tool_call>"'])
def test_what_does_not_begin_as_a_call_is_the_answer(text: str, size: int) -> None:
    reader = CallsOrAnswer("<tool_call>", lambda: TagReader(calls=True))
    pieces = [reader.push(text[start : start + size]) for start in range(0, len(text), size)]
    assert "".join(piece.content for piece in [*pieces, reader.finish()]) == text
    assert (reader.num_calls, reader.num_complete, reader.inside_thought) == (0, 0, False)


class Point(pydantic.BaseModel):
    x: int


class Weather(pydantic.BaseModel):
    city: str


def test_the_official_client_parses_either() -> None:
    bench = Bench(
        lambda request: say('{"x": 1}' if len(request.ids) // 4 > 3 else call("Weather", {"city": "Bern"}))
    )
    with (
        serving(bench) as port,
        openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x", max_retries=0) as client,
    ):
        asked: Any = {
            "model": "bytes",
            "tools": [openai.pydantic_function_tool(Weather)],
            "response_format": Point,
        }
        messages: list[Any] = [{"role": "user", "content": "hi"}]
        message = client.chat.completions.parse(messages=messages, **asked).choices[0].message
        (made,) = message.tool_calls or ()
        assert made.function.parsed_arguments == Weather(city="Bern")
        messages += [message, {"role": "tool", "tool_call_id": made.id, "content": "Rain"}]
        assert client.chat.completions.parse(messages=messages, **asked).choices[0].message.parsed == Point(
            x=1
        )
