"""POST /v1/responses: what is asked, what comes back whole, and what is refused."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from engine.client import RequestError
from server.responses.form import MAX_REPEATED_BYTES
from tests.server.chat_client import client
from tests.server.fakes import DEAD, MAX_MODEL_LEN, Bench, say

URL = "/v1/responses"
IMAGE = "data:image/png;base64,AAAA"
PICTURE = {"type": "input_image", "image_url": IMAGE}
SOUND = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "42"}


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "bytes", "input": "hi", **fields}


def post(bench: Bench, data: dict[str, Any], **more: Any) -> httpx.Response:
    async def run() -> httpx.Response:
        async with client(bench) as http:
            return await http.post(URL, json=data, **more)

    return asyncio.run(run())


def answered(bench: Bench, **fields: Any) -> dict[str, Any]:
    response = post(bench, body(**fields))
    assert response.status_code == 200, response.text
    bench.assert_idle()
    return response.json()


def refused(bench: Bench, data: dict[str, Any], status: int = 400) -> dict[str, Any]:
    response = post(bench, data)
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    bench.assert_idle()
    return error


def seen(*items: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """What the chat template is given for these input items."""
    bench = Bench()
    answered(bench, input=list(items), **fields)
    return bench.prompts.seen[0]["messages"]


def test_a_whole_answer_echoes_its_request_and_tells_its_usage() -> None:
    asked = {
        "instructions": "be brief", "max_output_tokens": 50, "temperature": 0.5, "top_p": 0.9, "user": "u",
        "metadata": {"a": "b"}, "prompt_cache_key": "k", "safety_identifier": "s", "tools": [TOOL],
        "tool_choice": "auto", "parallel_tool_calls": False,
        "reasoning": {"effort": "medium", "summary": None},
    }  # fmt: skip
    response = answered(Bench(lambda _: say("Hello", cached=2)), **asked)
    assert {name: response[name] for name in asked if name != "tools"} == {
        name: value for name, value in asked.items() if name != "tools"
    }
    assert response["tools"] == [{**TOOL, "description": None}]
    assert (response["object"], response["status"], response["store"]) == ("response", "completed", False)
    assert (response["error"], response["incomplete_details"]) == (None, None)
    (item,) = response["output"]
    assert (item["type"], item["role"], item["status"]) == ("message", "assistant", "completed")
    assert item["content"] == [{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}]
    usage = response["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (11, 6, 17)
    assert usage["input_tokens_details"]["cached_tokens"] == 2
    assert usage["input_tokens_details"]["cache_write_tokens"] == 9
    assert usage["output_tokens_details"] == {"reasoning_tokens": 0}


def test_integers_of_any_length_come_back() -> None:
    schema = {"type": "integer", "maximum": 10**30}
    tool = {**TOOL, "parameters": schema, "description": "é"}
    text = {"format": {"type": "json_schema", "name": "n", "schema": schema}}
    response = answered(Bench(), tools=[tool], tool_choice="none", text=text)
    assert response["tools"] == [tool]
    assert response["text"] == text


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{**TOOL, "description": "x" * MAX_REPEATED_BYTES}], "tool_choice": "none"}, "tools"),
        ({"text": {"format": {"type": "text", "description": "x" * MAX_REPEATED_BYTES}}}, "text.format"),
    ],
    ids=["tools", "format"],
)
def test_what_is_too_long_to_come_back_is_refused(fields: dict[str, Any], param: str) -> None:
    assert refused(Bench(), body(**fields))["param"] == param


def test_the_engine_gets_what_was_asked() -> None:
    bench = Bench()
    answered(
        bench,
        input=[{"role": "user", "content": [{"type": "input_text", "text": "ab"}, PICTURE]}],
        temperature=0, top_p=0.5, top_k=7, seed=-1, max_output_tokens=5,
    )  # fmt: skip
    (request,) = bench.engine.requests
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0, 0.5, 7)
    assert (sampling.max_tokens, sampling.num_top_logprobs) == (5, None)
    assert sampling.seed == 2**63 - 1
    assert request.spans == ((2, 6, 0, 0),)
    assert request.num_choices == 1


def test_a_limit_makes_an_answer_incomplete() -> None:
    response = answered(Bench(lambda _: say("Hel", "length")))
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete"


def test_logprobs_are_given_where_they_are_included() -> None:
    for fields in ({"top_logprobs": 2}, {"include": ["message.output_text.logprobs"]}):
        part = answered(Bench("Hi"), **fields)["output"][0]["content"][0]
        assert [token["token"] for token in part["logprobs"]] == ["H", "i"]
        assert part["logprobs"][0]["bytes"] == [72]


@pytest.mark.parametrize(
    ("text_format", "kind"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, "json_object"),
        ({"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}, "json_schema"),
    ],
)
def test_the_form_of_the_answer_is_enforced(text_format: dict[str, Any], kind: str | None) -> None:
    bench = Bench("{}")
    assert answered(bench, text={"format": text_format})["text"] == {"format": text_format}
    grammar = bench.engine.requests[0].grammar
    assert (grammar.kind if grammar else None) == kind


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "f"}])
def test_a_forced_call_has_a_grammar(choice: Any) -> None:
    bench = Bench('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>')
    (item,) = answered(bench, tools=[TOOL], tool_choice=choice)["output"]
    assert (item["type"], item["name"], item["arguments"]) == ("function_call", "f", "{}")
    grammar = bench.engine.requests[0].grammar
    assert grammar is not None
    assert grammar.kind == "lark"


def test_allowed_tools_are_all_that_the_model_is_shown() -> None:
    bench = Bench()
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}
    response = answered(bench, tools=[TOOL, {**TOOL, "name": "g"}], tool_choice=choice)
    assert response["tool_choice"] == choice
    assert [tool["function"]["name"] for tool in bench.prompts.seen[0]["tools"]] == ["f"]


def test_instructions_come_first() -> None:
    messages = seen({"role": "developer", "content": "d"}, {"role": "user", "content": "u"}, instructions="i")
    assert [(message["role"], message["content"]) for message in messages] == [
        ("system", "i"), ("developer", "d"), ("user", "u"),
    ]  # fmt: skip


def test_items_of_one_turn_become_one_message() -> None:
    thought = {
        "type": "reasoning",
        "id": "r",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
    }
    message = {
        "type": "message", "role": "assistant", "id": "m", "status": "completed",
        "content": [{"type": "output_text", "text": "so", "annotations": [], "logprobs": []}],
    }  # fmt: skip
    second = {**CALL, "call_id": "d", "arguments": '{"x": 1}'}
    messages = seen(
        {"role": "user", "content": "u"}, thought, message, CALL, second,
        OUTPUT, {**OUTPUT, "call_id": "d", "output": [{"type": "input_text", "text": "7"}]},
    )  # fmt: skip
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"]
    turn = messages[1]
    assert (turn["content"], turn["reasoning_content"]) == ("so", "hm")
    assert [call["function"]["arguments"] for call in turn["tool_calls"]] == [{}, {"x": 1}]
    assert messages[2]["tool_call_id"] == "c"
    assert messages[3]["content"] == [{"type": "text", "text": "7"}]


def test_what_can_not_be_one_turn_is_two() -> None:
    thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "t"}]}
    said = {"role": "assistant", "content": "s"}
    messages = seen(said, said, CALL, OUTPUT, thought, CALL, thought, said, {"role": "user", "content": "u"})
    roles = [message["role"] for message in messages]
    assert roles == ["assistant", "assistant", "tool", "assistant", "assistant", "user"]
    assert [bool(message.get("tool_calls")) for message in messages[:5]] == [False, True, False, True, False]


def test_a_thought_that_nothing_follows_is_left_out() -> None:
    thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "t"}]}
    assert seen({"role": "user", "content": "u"}, thought) == [{"role": "user", "content": "u"}]
    secret = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"}
    (_, message) = seen({"role": "user", "content": "u"}, secret, {"role": "assistant", "content": "a"})
    assert message == {"role": "assistant", "content": "a"}


def test_an_answer_given_back_is_what_the_model_wrote() -> None:
    bench = Bench('Well.\n<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>')
    output = answered(bench, tools=[TOOL])["output"]
    assert [item["type"] for item in output] == ["message", "function_call"]
    answer = {"type": "function_call_output", "call_id": output[1]["call_id"], "output": "ok"}
    answered(bench, input=[{"role": "user", "content": "hi"}, *output, answer], tools=[TOOL])
    turn = bench.prompts.seen[1]["messages"][1]
    assert turn["content"] == "Well."
    assert turn["tool_calls"][0]["function"] == {"name": "f", "arguments": {"x": 1}}


def test_tenants_and_salts_have_namespaces_of_their_own() -> None:
    bench = Bench(api_key=("a:k1", "b:k2"))
    for key, salt in (("k1", None), ("k2", None), ("k1", "s")):
        post(bench, body(cache_salt=salt), headers={"authorization": f"Bearer {key}"})
    assert len({request.namespace for request in bench.engine.requests}) == 3
    assert post(bench, body()).status_code == 401


def message(content: Any, role: str = "user") -> dict[str, Any]:
    return {"input": [{"role": role, "content": content}]}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"input": None}, "input"), ({"input": []}, "input"), ({"input": 5}, "input"), ({"input": [5]},
    "input[0]"),
    ({"input": [{"role": "king", "content": "x"}]}, "input[0].role"),
    ({"input": [{"id": "x"}]}, "input[0].role"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
    (message([{"type": "input_text", "text": ""}] * 4097), "input[0].content"),
    ({"input": [{"role": "assistant", "content": [{"type": "output_text", "text": ""}] * 4097}]},
    "input[0].content"),
    (message(5), "input[0].content"), (message([]), "input[0].content"),
    (message([5]), "input[0].content[0]"),
    (message([{"type": "input_file", "file_id": "x"}]), "input[0].content[0].type"),
    (message([{"type": "input_image", "file_id": "x"}]), "input[0].content[0].file_id"),
    (message([{"type": "input_image"}]), "input[0].content[0].image_url"),
    (message([{"type": "input_image", "image_url": {"url": "x"}}]), "input[0].content[0].image_url"),
    (message([{"type": "input_image", "image_url": "bad"}]), "input[0].content[0].image_url"),
    (message([SOUND]), "input[0].content[0].input_audio"),
    (message([PICTURE], "system"), "input[0].content[0].type"),
    (message([PICTURE], "assistant"), "input[0].content[0].type"),
    ({"input": [OUTPUT]}, "input[0].call_id"), ({"input": [CALL, {**OUTPUT, "call_id": "d"}]},
    "input[1].call_id"),
    ({"input": [{**CALL, "namespace": ""}]}, "input[0].namespace"),
    ({"input": [CALL, {**OUTPUT, "output": [PICTURE]}]},
    "input[1].output[0].type"),
    ({"previous_response_id": "resp_1"}, "previous_response_id"), ({"conversation": "c"}, "conversation"),
    ({"background": True}, "background"), ({"store": True}, "store"), ({"prompt": {"id": "p"}}, "prompt"),
    ({"truncation": "auto"}, "truncation"), ({"service_tier": "flex"}, "service_tier"),
    ({"moderation": {"model": "m"}}, "moderation"),
    ({"context_management": [{"type": "compaction"}]}, "context_management"),
    ({"image": {"context_compression": "enabled"}}, "image"),
    ({"include": ["nonsense"]}, "include[0]"), ({"top_logprobs": 21}, "top_logprobs"), ({"temperature": 3},
    "temperature"),
    ({"top_p": 0}, "top_p"), ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"max_output_tokens": 2**63}, "max_output_tokens"), ({"max_tool_calls": 10**30}, "max_tool_calls"),
    ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"), ({"tools": [TOOL, TOOL]}, "tools"),
    ({"tools": [{**TOOL, "defer_loading": True}]}, "tools[0].defer_loading"),
    ({"tools": [{**TOOL, "async": True}]}, "tools[0].async"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools[0]"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "g"}}, "tool_choice"),
    ({"text": {"verbosity": "low"}}, "text.verbosity"),
    ({"reasoning": {"effort": "low"}}, "reasoning.effort"), ({"reasoning": {"effort": "x"}},
    "reasoning.effort"),
    ({"reasoning": {"context": "all_turns"}}, "reasoning.context"),
    ({"reasoning": {"mode": "pro"}}, "reasoning.mode"), ({"reasoning": {"x": 1}}, "reasoning.x"),
    ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
    ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
    ({"text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "nonsense"}}}},
    "text.format.schema"),
    ({"metadata": {"k" * 65: "v"}}, "metadata"), ({"cache_salt": ""}, "cache_salt"), ({"nonsense": 1},
    "nonsense"),
    ({"n": 2}, "n"), ({"chat_template_kwargs": {"tools": []}}, "chat_template_kwargs"),
    ({"chat_template_kwargs": {"refuse": True}}, "input"),
    ({"input": "x" * MAX_MODEL_LEN}, "input"),
]  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fields", "param"), BAD, ids=lambda value: str(value)[:50])
def test_refusals_name_the_field(fields: dict[str, Any], param: str, stream: bool) -> None:
    error = refused(Bench(), {**body(stream=stream), **fields})
    assert error["param"] is not None
    assert error["param"].startswith(param), error
    assert error["code"]


@pytest.mark.parametrize(
    "fields",
    [
        {"store": False}, {"background": False}, {"truncation": "disabled"}, {"service_tier": "auto"},
        {"tools": []},
        {"include": ["reasoning.encrypted_content"]},
        {"reasoning": {"effort": "medium", "summary": "auto", "mode": "standard", "context": "auto"}},
        {"text": {}},
        {"text": {"verbosity": "medium"}}, {"prompt_cache_options": {"mode": "implicit"}},
        {"max_tool_calls": 3},
        {"image": {"context_compression": "auto"}}, {"context_management": []}, {"tool_choice": "none"},
        {"tools": [{**TOOL, "strict": None, "parameters": None, "allowed_callers": ["direct"]}]},
        {"tools": [{**TOOL, "async": False, "defer_loading": False, "output_schema": {}}]},
    ],
    ids=str,
)  # fmt: skip
def test_what_asks_for_nothing_is_accepted(fields: dict[str, Any]) -> None:
    answered(Bench(), **fields)


def test_nulls_are_absent() -> None:
    from server.schema.responses import ResponseRequest

    names = [name for name in ResponseRequest.model_fields if name not in ("model", "input")]
    answered(Bench(), **dict.fromkeys(names))


def test_stream_options_need_a_stream() -> None:
    assert refused(Bench(), body(stream_options={}))["param"] == "stream_options"


def test_an_unknown_model_is_404() -> None:
    assert refused(Bench(), body(model="gpt-4"), 404)["code"] == "model_not_found"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("failure", "status"), [(RequestError("full", "overloaded"), 503), (DEAD, 503), (KeyError("secret"), 500)]
)
def test_failures_before_the_first_token_have_a_status(failure: Exception, status: int, stream: bool) -> None:
    error = refused(Bench(lambda _: [failure]), body(stream=stream), status)
    assert "secret" not in json.dumps(error)


def test_a_server_that_drains_takes_no_responses() -> None:
    bench = Bench()
    bench.state.draining = True
    response = post(bench, body())
    assert response.status_code == 503
    assert response.headers["retry-after"]
