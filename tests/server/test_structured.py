"""response_format: what can't be enforced is refused at once; what can reaches the engine as a grammar."""

import json
import time
from typing import Any

import openai
import pydantic
import pytest

from tests.server.chat_client import post, refused
from tests.server.fakes import Bench, chat, say
from tests.server.live import serving


def schema_format(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}


RECURSIVE = {
    "$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}},
    "$ref": "#/$defs/n",
}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"$ref": "#/nope"},
        {"$ref": "http://example.com/x"},
        {"enum": []},
        {"required": "a"},
        {"type": "string", "pattern": "("},
        {"type": "string", "format": "nonsense"},
        {"not": {}},
        {"enum": list(range(100_000))},
        {"type": "object", "patternProperties": {"a(": {}}},
    ],
    ids=lambda schema: str(schema)[:40],
)
@pytest.mark.parametrize("stream", [False, True])
def test_schemas_that_cannot_be_enforced(schema: Any, stream: bool) -> None:
    started = time.monotonic()
    error = refused(Bench(), chat(response_format=schema_format(schema), stream=stream))
    assert error["code"] == "invalid_grammar"
    assert error["param"] == "response_format.json_schema.schema"
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "schema", [RECURSIVE, {"type": "array", "items": [{"type": "string"}]}, {}, None], ids=str
)
def test_schemas_that_can(schema: Any) -> None:
    bench = Bench()
    assert post(bench, chat(response_format=schema_format(schema))).status_code == 200
    grammar = bench.engine.requests[0].grammar
    assert grammar is not None
    assert grammar.kind == "json_schema"
    assert {**(schema or {}), "x-guidance": json.loads(grammar.definition)["x-guidance"]} == json.loads(
        grammar.definition
    )


def test_json_object() -> None:
    bench = Bench()
    post(bench, chat(response_format={"type": "json_object"}))
    assert bench.engine.requests[0].grammar is not None
    assert bench.engine.requests[0].grammar.kind == "json_object"


STRUCTURED = {
    "regex": (r"[a-z]+ \d{2,}", "regex"),
    "choice": (["yes", 'quote " \\ \n', "日本"], "lark"),
    "grammar": ('start: "a" start | "b"\n', "lark"),
}


@pytest.mark.parametrize("kind", STRUCTURED)
def test_structured_outputs_reach_the_engine(kind: str) -> None:
    value, grammar_kind = STRUCTURED[kind]
    bench = Bench()
    assert post(bench, chat(structured_outputs={kind: value})).status_code == 200
    grammar = bench.engine.requests[0].grammar
    assert grammar is not None
    assert grammar.kind == grammar_kind


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ({}, "structured_outputs"),
        ({"regex": "a", "choice": ["a"]}, "structured_outputs"),
        ({"regex": "("}, "structured_outputs.regex"),
        ({"regex": ""}, "structured_outputs.regex"),
        ({"grammar": "start: nothing"}, "structured_outputs.grammar"),
        ({"grammar": "x" * (300 << 10)}, "structured_outputs.grammar"),
        ({"choice": []}, "structured_outputs.choice"),
        ({"choice": [""]}, "structured_outputs.choice[0]"),
        ({"json": {}}, "structured_outputs.json"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_structured_outputs_that_can_not_be(value: Any, param: str) -> None:
    started = time.monotonic()
    assert refused(Bench(), chat(structured_outputs=value))["param"] == param
    assert time.monotonic() - started < 5


def test_two_forms_at_once_are_refused() -> None:
    both = chat(structured_outputs={"regex": "a"}, response_format={"type": "json_object"})
    assert refused(Bench(), both)["param"] == "structured_outputs"
    tool = {"type": "function", "function": {"name": "f"}}
    assert (
        refused(Bench(), chat(tools=[tool], structured_outputs={"regex": "a"}))["param"]
        == "structured_outputs"
    )


class Point(pydantic.BaseModel):
    x: int
    y: int


def test_the_official_client_parses() -> None:
    with serving(Bench('{"x": 1, "y": 2}')) as port:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x", max_retries=0)
        parsed = client.chat.completions.parse(**chat(), response_format=Point)
    assert parsed.choices[0].message.parsed == Point(x=1, y=2)


def test_an_answer_cut_short_says_so() -> None:
    with serving(Bench(lambda _: say('{"x": 1', "length"))) as port:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x", max_retries=0)
        with pytest.raises(openai.LengthFinishReasonError):
            client.chat.completions.parse(**chat(), response_format=Point)
