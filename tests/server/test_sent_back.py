"""An answer is taken as it came: whatever the official client keeps of it can be part of the next request."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pydantic
import pytest
from openai.types.chat import ChatCompletionMessage, ParsedChatCompletionMessage, ParsedFunctionToolCall
from openai.types.chat.parsed_function_tool_call import ParsedFunction
from openai.types.responses import (
    ParsedResponseFunctionToolCall,
    ParsedResponseOutputMessage,
    ParsedResponseOutputText,
    ResponseReasoningItem,
)

from server.reasoning import ThinkTokens
from server.schema import message_fields, responses_fields, tool_fields
from server.schema.field import Section
from tests.server.chat_client import post
from tests.server.fakes import Bench, chat, say
from tests.server.live import serving
from tests.server.test_responses import body
from tests.server.test_responses import post as post_response
from tests.server.test_tools import TIME, WEATHER, call

Ask = Callable[[openai.OpenAI, Any], Any]
ANSWERS = {
    "text": "Hello",
    "thought": "<think>hm</think>\nHello",
    "only a thought": "<think>hm",
    "call": call("weather", {"city": "Zürich"}),
    "all": "<think>hm</think>\nI look. " + call("weather", {"city": "Bern"}) + "\n" + call("time", {}),
    "nameless call": call("", {}),
    "long name": call("n" * 300, {}),
}
FLAT = [{"type": "function", **tool["function"]} for tool in (WEATHER, TIME)]  # type: ignore[dict-item]


def created(client: openai.OpenAI, request: Any) -> Any:
    return client.chat.completions.create(**request).choices[0].message


def parsed(client: openai.OpenAI, request: Any) -> Any:
    strict = [{**t, "function": {**t["function"], "strict": True}} for t in request.get("tools", ())]
    request = request | ({"tools": strict} if strict else {})
    return client.chat.completions.parse(**request).choices[0].message


def streamed(client: openai.OpenAI, request: Any) -> Any:
    with client.chat.completions.stream(**request) as stream:
        return stream.get_final_completion().choices[0].message


def joined_by_hand(client: openai.OpenAI, request: Any) -> Any:
    """As clients do that put the deltas together themselves: the calls keep their `index`."""
    message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": []}
    for chunk in client.chat.completions.create(**request, stream=True):
        for delta in (choice.delta for choice in chunk.choices):
            message["content"] += delta.content or ""
            for piece in delta.tool_calls or ():
                if piece.id:
                    message["tool_calls"].append(piece.model_dump())
                elif piece.function:
                    function = message["tool_calls"][piece.index]["function"]
                    function["arguments"] += piece.function.arguments
    return message


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.state.runtime = dataclasses.replace(made.state.serving(), think=ThinkTokens(258, 259))
    return made


@pytest.fixture
def client(bench: Bench) -> Iterator[openai.OpenAI]:
    url = "http://127.0.0.1:{}/v1"
    with serving(bench) as port, openai.OpenAI(base_url=url.format(port), api_key="x", max_retries=0) as made:
        yield made


@pytest.mark.parametrize("ask", [created, parsed, streamed, joined_by_hand])
def test_a_message_is_taken_as_it_came(ask: Ask, bench: Bench, client: openai.OpenAI) -> None:
    request: Any = chat(tools=[WEATHER, TIME], logprobs=True, top_logprobs=1)
    for name, answer in ANSWERS.items():
        bench.engine.script = lambda _, answer=answer: say(answer)
        message = ask(client, request)
        dump = message if isinstance(message, dict) else message.model_dump()
        results = [
            {"role": "tool", "tool_call_id": made["id"], "content": "ok"} for made in dump["tool_calls"] or ()
        ]
        assert len(results) == answer.count("</tool_call>"), name
        for sent in (message, dump):
            later: Any = request | {"messages": [*request["messages"], sent, *results]}
            client.chat.completions.create(**later)
            _, turn, *answers = bench.prompts.seen[-1]["messages"]
            assert len(answers) == len(turn.get("tool_calls", [])) == len(results), name
            if "think" in answer and ask is not joined_by_hand:
                assert turn["reasoning_content"] == "hm"


NO_OBJECTS = ["Bern", '{"city": "Be', "[1]", "null", '{"a": 1e999}', '{"a": [NaN]}', "{" * 10_000]


@pytest.mark.parametrize("arguments", NO_OBJECTS, ids=lambda text: text[:20])
def test_arguments_that_are_no_object_are_the_templates(arguments: str) -> None:
    assert earlier_arguments(arguments) == arguments


@pytest.mark.parametrize("nothing", ["", " \n", "{}"])
def test_no_arguments_are_an_empty_object(nothing: str) -> None:
    assert earlier_arguments(nothing) == {}


def test_half_of_a_surrogate_pair_in_earlier_arguments_is_replaced() -> None:
    wild = '{"a": ["\\ud800 \\ud83d\\ude00", {"\\udc00": 1}]}'
    assert earlier_arguments(wild) == {"a": ["\ufffd \U0001f600", {"\ufffd": 1}]}


def earlier_arguments(arguments: str) -> Any:
    """What the template is given for a call that comes back, from a chat and from a response."""
    function = {"name": "time", "arguments": arguments}
    made = {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    item = {"type": "function_call", "call_id": "c", **function}
    bench = Bench()
    assert post(bench, chat() | {"messages": [made]}).status_code == 200
    assert post_response(bench, body(input=[item])).status_code == 200
    of_chat, of_response = (seen["messages"][0]["tool_calls"][0]["function"] for seen in bench.prompts.seen)
    assert of_chat == of_response
    return of_chat["arguments"]


@pytest.mark.parametrize("reason", ["stop", "length"])
@pytest.mark.parametrize("arguments", ['"Bern"', '{"city": "Be'])
def test_a_call_that_this_server_wrote_is_taken(arguments: str, reason: str) -> None:
    written = '<tool_call>\n{"name": "weather", "arguments": ' + arguments
    bench = Bench(lambda _: say(written + ("}\n</tool_call>" if reason == "stop" else ""), reason))
    made = post(bench, chat(tools=[WEATHER])).json()["choices"][0]["message"]
    results = [
        {"role": "tool", "tool_call_id": c["id"], "content": "?"} for c in made.get("tool_calls") or ()
    ]
    assert post(bench, chat() | {"messages": [made, *results]}).status_code == 200
    output = post_response(bench, body(tools=FLAT)).json()["output"]
    outputs = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "?"}
        for item in output
        if item["type"] == "function_call"
    ]
    assert post_response(bench, body(input=[*output, *outputs])).status_code == 200
    assert len(results) == len(outputs)


def test_as_many_calls_are_taken_as_can_be_made() -> None:
    bench = Bench(call("f", {}) * 130)
    made = post(bench, chat(tools=[TIME])).json()["choices"][0]["message"]
    assert len(made["tool_calls"]) == 130
    assert post(bench, chat() | {"messages": [made]}).status_code == 200


def response(client: openai.OpenAI, request: Any) -> Any:
    return client.responses.create(**request).output


def parsed_response(client: openai.OpenAI, request: Any) -> Any:
    return client.responses.parse(**request).output


def streamed_response(client: openai.OpenAI, request: Any) -> Any:
    with client.responses.stream(**request) as stream:
        return stream.get_final_response().output


@pytest.mark.parametrize("ask", [response, parsed_response, streamed_response])
def test_output_is_taken_as_input(ask: Ask, bench: Bench, client: openai.OpenAI) -> None:
    request: Any = body(tools=[{**tool, "strict": True} for tool in FLAT], top_logprobs=1)
    for name, answer in ANSWERS.items():
        bench.engine.script = lambda _, answer=answer: say(answer)
        output = ask(client, request)
        ids = [item.call_id for item in output if item.type == "function_call"]
        results = [{"type": "function_call_output", "call_id": made, "output": "ok"} for made in ids]
        assert len(ids) == answer.count("</tool_call>"), name
        for sent in (output, [item.model_dump() for item in output]):
            later: Any = request | {"input": [{"role": "user", "content": "hi"}, *sent, *results]}
            client.responses.create(**later)
            roles = [message["role"] for message in bench.prompts.seen[-1]["messages"]]
            assert roles == ["user", "assistant", *["tool"] * len(ids)], name


@pytest.mark.parametrize(
    ("answer", "section"),
    [
        (ChatCompletionMessage, message_fields.ASSISTANT_MESSAGE),
        (ParsedChatCompletionMessage, message_fields.ASSISTANT_MESSAGE),
        (ParsedFunctionToolCall, tool_fields.TOOL_CALL),
        (ParsedFunction, tool_fields.CALLED_FUNCTION),
        (ParsedResponseOutputMessage, responses_fields.OUTPUT_MESSAGE),
        (ParsedResponseOutputText, responses_fields.OUTPUT_TEXT),
        (ParsedResponseFunctionToolCall, responses_fields.FUNCTION_CALL),
        (ResponseReasoningItem, responses_fields.REASONING_ITEM),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_no_published_field_of_an_answer_is_unknown(
    answer: type[pydantic.BaseModel], section: Section
) -> None:
    names = {info.alias or name for name, info in answer.model_fields.items()}
    assert names - {field.name for field in section.fields} == set()
