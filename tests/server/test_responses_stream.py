"""The events of a streamed response: which, in what order, and what the official client makes of them."""

import asyncio
import dataclasses
import json
from typing import Any

import openai
import pydantic
import pytest
from openai.types.responses import ResponseStreamEvent

from engine.client import RequestError
from server.choice import Piece
from server.reasoning import ThinkTokens
from server.responses.answer import Answer
from server.responses.namespaces import Namespaces
from server.tools.parser import ToolDelta
from tests.server.fakes import Bench, say
from tests.server.live import serving
from tests.server.test_responses import TOOL, body, post
from tests.server.test_stream_live import connect, eventually, read_until

CALL = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
WEATHER = {**TOOL, "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}


def events(bench: Bench, **fields: Any) -> list[dict[str, Any]]:
    """Parsed events, checked for what holds for every stream."""
    response = post(bench, body(stream=True, **fields))
    assert response.status_code == 200, response.text
    found = []
    for block in response.text.removesuffix("\n\n").split("\n\n"):
        name, _, data = block.partition("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    published = pydantic.TypeAdapter(ResponseStreamEvent)
    for event in found:
        published.validate_python(event)
    bench.assert_idle()
    return found


def kinds(found: list[dict[str, Any]]) -> list[str]:
    """Event types without `response.`; several of one kind in a row are one."""
    names = [event["type"].removeprefix("response.") for event in found]
    return [name for index, name in enumerate(names) if index == 0 or names[index - 1] != name]


def thinking(text: str) -> Bench:
    bench = Bench(text)
    bench.state.runtime = dataclasses.replace(bench.state.serving(), think=ThinkTokens(-1, -2))
    return bench


def text_item(stem: str) -> list[str]:
    part = ["content_part.added", f"{stem}.delta", f"{stem}.done", "content_part.done"]
    return ["output_item.added", *part, "output_item.done"]


TEXT = text_item("output_text")
THOUGHT = text_item("reasoning_text")
CALL_EVENTS = ["function_call_arguments.delta", "function_call_arguments.done"]
CALLING = ["output_item.added", *CALL_EVENTS, "output_item.done"]


def test_text_comes_in_the_published_order() -> None:
    found = events(Bench("Hello"))
    assert kinds(found) == ["created", "in_progress", *TEXT, "completed"]
    assert "".join(event["delta"] for event in found if "delta" in event) == "Hello"
    assert found[0]["response"]["status"] == "in_progress"
    assert found[0]["response"]["output"] == []
    assert found[2]["item"]["content"] == []
    assert len({event["item_id"] for event in found if "item_id" in event}) == 1
    final = found[-1]["response"]
    assert final["output"] == [found[-2]["item"]]
    assert final["usage"]["output_tokens"] == 6


def test_a_streamed_answer_ends_as_the_whole_one() -> None:
    def nameless(response: dict[str, Any]) -> dict[str, Any]:
        output = [
            {k: v for k, v in item.items() if k not in ("id", "call_id")} for item in response["output"]
        ]
        return {**response, "output": output, "id": "", "created_at": 0, "completed_at": 0}

    for text in ("Hello", f"Hi\n{CALL}\n{CALL}", f"{CALL} and then"):
        streamed = events(Bench(text), tools=[TOOL], top_logprobs=1)[-1]["response"]
        whole = post(Bench(text), body(tools=[TOOL], top_logprobs=1)).json()
        assert nameless(streamed) == nameless(whole)


def test_a_thought_a_text_and_calls_are_items_of_their_own() -> None:
    found = events(thinking(f"<think>\nhm\n</think>\n\nSo.\n{CALL}\n{CALL}"), tools=[TOOL])
    assert kinds(found) == ["created", "in_progress", *THOUGHT, *TEXT, *CALLING, *CALLING, "completed"]
    indexed = [event for event in found if "output_index" in event]
    assert [event["output_index"] for event in indexed] == sorted(event["output_index"] for event in indexed)
    thought, text, *calls = found[-1]["response"]["output"]
    assert thought["content"][0]["text"].strip() == "hm"
    assert text["content"][0]["text"] == "So."
    assert [json.loads(call["arguments"]) for call in calls] == [{"x": 1}] * 2
    assert len({call["call_id"] for call in calls}) == 2


def test_logprobs_come_with_their_text_and_not_with_thoughts() -> None:
    found = events(thinking("<think>hm</think>ab"), top_logprobs=1)
    deltas = [event for event in found if event["type"] == "response.output_text.delta"]
    assert [[t["token"] for t in event["logprobs"]] for event in deltas] == [["a"], ["b"]]
    done = next(event for event in found if event["type"] == "response.output_text.done")
    assert [token["token"] for token in done["logprobs"]] == ["a", "b"]


def test_an_empty_answer_is_an_empty_message() -> None:
    found = events(Bench(lambda _: say("")))
    assert kinds(found) == ["created", "in_progress", *TEXT[:2], *TEXT[3:], "completed"]


@pytest.mark.parametrize("text", ["Hel", "<think>h"])
def test_a_limit_ends_a_stream_as_incomplete(text: str) -> None:
    bench = thinking("")
    bench.engine.script = lambda _: say(text, "length")
    found = events(bench)
    assert found[-1]["type"] == "response.incomplete"
    final = found[-1]["response"]
    assert final["incomplete_details"] == {"reason": "max_output_tokens"}
    assert [item["status"] for item in final["output"]] == ["incomplete"]


def test_a_failure_after_the_first_event_is_response_failed() -> None:
    bench = Bench(lambda _: [*say("Hello")[:3], RequestError("secret 0x7f00aabbccdd", "internal")])
    found = events(bench)
    assert found[-1]["type"] == "response.failed"
    failed = found[-1]["response"]
    assert (failed["status"], failed["error"]["code"]) == ("failed", "server_error")
    assert "secret" not in failed["error"]["message"]
    assert failed["output"][0]["content"][0]["text"] == "Hel"
    assert bench.state.telemetry.num_failed == 1


def test_text_between_calls_never_cuts_a_call() -> None:
    answer = Answer(Namespaces(()))
    pieces = [
        Piece(calls=[ToolDelta(0, "", "a", "f"), ToolDelta(0, "{")]),
        Piece(calls=[ToolDelta(0, "}"), ToolDelta(1, "{}", "b", "g")], content="then"),
        Piece(finish_reason="tool_calls"),
    ]
    for piece in pieces:
        list(answer.feed(piece))
    first, text, second = answer.output()
    assert (first["arguments"], text["content"][0]["text"], second["arguments"]) == ("{}", "then", "{}")
    assert {item["status"] for item in answer.output()} == {"completed"}


class Weather(pydantic.BaseModel):
    city: str
    degrees: int


@pytest.fixture
def bench() -> Bench:
    return Bench('{"city": "Oslo", "degrees": -3}')


def official(port: int) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x", max_retries=0)


def test_the_official_client_creates_streams_and_parses(bench: Bench) -> None:
    with serving(bench) as port:
        client = official(port)
        response = client.responses.create(model="bytes", input="hi", store=False)
        assert response.output_text == '{"city": "Oslo", "degrees": -3}'
        assert response.usage is not None
        assert response.usage.input_tokens_details.cached_tokens == 0
        parsed = client.responses.parse(model="bytes", input="hi", text_format=Weather)
        assert parsed.output_parsed == Weather(city="Oslo", degrees=-3)
        with client.responses.stream(model="bytes", input="hi", text_format=Weather) as stream:
            texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
            final = stream.get_final_response()
        assert "".join(texts) == final.output_text
        assert final.output_parsed == Weather(city="Oslo", degrees=-3)
        again: Any = [{"role": "user", "content": "hi"}, *final.output, {"role": "user", "content": "more"}]
        assert client.responses.create(model="bytes", input=again).output_text
    assert bench.engine.requests[1].grammar is not None
    assert bench.prompts.seen[-1]["messages"][1] == {"role": "assistant", "content": final.output_text}


def test_the_official_client_goes_through_a_tool_loop() -> None:
    bench = Bench(CALL)
    with serving(bench) as port:
        client = official(port)
        with client.responses.stream(model="bytes", input="hi", tools=[WEATHER]) as stream:  # type: ignore[list-item]
            final = stream.get_final_response()
        (call,) = final.output
        assert call.type == "function_call"
        assert json.loads(call.arguments) == {"x": 1}
        answer = {"type": "function_call_output", "call_id": call.call_id, "output": "7"}
        items: Any = [{"role": "user", "content": "hi"}, *final.output, answer]
        client.responses.create(model="bytes", input=items, tools=[WEATHER])  # type: ignore[list-item]
    roles = [message["role"] for message in bench.prompts.seen[1]["messages"]]
    assert roles == ["user", "assistant", "tool"]


def test_a_client_that_leaves_cancels_its_response() -> None:
    bench = Bench(lambda _: [*say("Hello")[:3], 60.0])
    data = json.dumps(body(stream=True)).encode()
    head = b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    with serving(bench) as port:
        connection = connect(port, head + b"content-length: %d\r\n\r\n" % len(data) + data)
        assert b"response.created" in read_until(connection, b"response.created")
        connection.close()
        eventually(lambda: bench.engine.num_aborted == 1)
        eventually(lambda: bench.state.telemetry.num_open == 0)
    bench.assert_idle()


def test_responses_wait_in_the_queue_like_chats() -> None:
    bench = Bench(lambda _: [60.0], max_num_seqs=1, max_queue=0)

    async def run() -> int:
        from tests.server.chat_client import client

        async with client(bench) as http:
            inside = [asyncio.create_task(http.post("/v1/responses", json=body())) for _ in range(3)]
            await asyncio.to_thread(eventually, lambda: bench.engine.num_open == 3)
            status = (await http.post("/v1/responses", json=body())).status_code
            for task in inside:
                task.cancel()
            await asyncio.gather(*inside, return_exceptions=True)
            return status

    assert asyncio.run(run()) == 503
