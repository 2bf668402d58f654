"""What the agents that speak /v1/responses send, as captured from their own clients."""

import pytest

from tests.server.fakes import Bench
from tests.server.test_responses import TOOL, answered, body, post, refused

SPAWN = {**TOOL, "name": "spawn", "description": "Starts one.", "strict": False}
AGENTS = {"type": "namespace", "name": "agents", "description": "Other agents.", "tools": [SPAWN]}
CALLED = 'Well.\n<tool_call>\n{"name": "agents__spawn", "arguments": {"x": 1}}\n</tool_call>'

CODEX = {
    "instructions": "You are a coding agent.",
    "input": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "developer",
            "content": [{"type": "input_text", "text": "Be safe."}],
        },
        {
            "type": "message",
            "id": "msg_2",
            "role": "user",
            "content": [{"type": "input_text", "text": "Say hello."}],
        },
    ],
    "tools": [SPAWN, AGENTS],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"summary": "auto"},
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "01a22bc8-2e36-7dc3-89e5-25f06b5a59dc",
    "client_metadata": {"x-codex-turn-metadata": '{"session_id": "01a22bc8"}'},
}
"""Codex 0.171, shortened; with `web_search = "disabled"` in its configuration."""


@pytest.mark.parametrize("stream", [False, True])
def test_a_turn_of_codex_is_answered(stream: bool) -> None:
    bench = Bench("Hello.")
    response = post(bench, body(**CODEX, stream=stream))
    assert response.status_code == 200, response.text
    assert "Hello." in response.text
    seen = bench.prompts.seen[0]
    assert [message["role"] for message in seen["messages"]] == ["system", "developer", "user"]
    names = [tool["function"]["name"] for tool in seen["tools"]]
    assert names == ["spawn", "agents__spawn"]
    assert seen["tools"][1]["function"]["description"] == "Other agents.\nStarts one."


def test_a_call_comes_back_with_its_namespace_apart_and_is_taken_so() -> None:
    bench = Bench(CALLED)
    output = answered(bench, tools=[AGENTS])["output"]
    assert (output[1]["name"], output[1]["namespace"]) == ("spawn", "agents")
    result = {"type": "function_call_output", "call_id": output[1]["call_id"], "output": "ok"}
    answered(bench, input=[{"role": "user", "content": "hi"}, *output, result], tools=[AGENTS])
    turn = bench.prompts.seen[1]["messages"][1]
    assert turn["tool_calls"][0]["function"] == {"name": "agents__spawn", "arguments": {"x": 1}}


def test_every_event_of_a_call_has_its_namespace_apart() -> None:
    lines = post(Bench(CALLED), body(tools=[AGENTS], stream=True)).text.splitlines()
    told = [line for line in lines if '"type":"function_call"' in line]
    assert len(told) == 3  # added, done, and the whole response at the end
    assert all('"name":"spawn","namespace":"agents"' in line for line in told)
    assert not any("agents__spawn" in line for line in lines)


def test_a_function_outside_of_any_namespace_has_none() -> None:
    bench = Bench('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>')
    assert "namespace" not in answered(bench, tools=[TOOL, AGENTS])["output"][0]


def test_two_tools_of_one_name_are_refused_across_namespaces() -> None:
    flat = {**TOOL, "name": "agents__spawn"}
    assert refused(Bench(), body(tools=[AGENTS, flat]))["param"] == "tools"


@pytest.mark.parametrize("tool", [{"type": "custom", "name": "c"}, AGENTS])
def test_only_functions_have_a_place_in_a_namespace(tool: dict) -> None:
    error = refused(Bench(), body(tools=[{**AGENTS, "tools": [tool]}]))
    assert error["param"] == "tools[0].tools[0].type"
