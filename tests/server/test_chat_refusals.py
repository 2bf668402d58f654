"""Chats that are refused, or fail before their first token: with a status, a code and the field's name."""

from typing import Any

import pytest

from engine.client import EngineDead, RequestError
from tests.server.chat_client import post, refused
from tests.server.fakes import DEAD, VOCAB_SIZE, Bench, chat, image, say

FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "messages"),
    ({"messages": "x"}, "messages"),
    ({"messages": [123]}, "messages[0]"),
    ({"messages": [{}]}, "messages[0]"),
    ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "function", "content": "x", "name": "f"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 123}]}, "messages[0].content"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "assistant"}]}, "messages[0].content"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
    ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "y"}]}, "messages[0].tool_call_id"),
    ({"messages": [{"role": "system", "content": [image()]}]}, "messages[0].content[0].type"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
        "messages[0].content[0].image_url",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        "messages[0].content[0].image_url.url",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "x"}}]}]},
        "messages[0].content[0].type",
    ),
    ({"messages": [{"role": "user", "content": [image() | {"uuid": "a b"}]}]}, "messages[0].content[0].uuid"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "messages[0].content[0].image_url",
    ),
    (
        {
            "messages": [
                {"role": "user", "content": [{"type": "input_audio", "input_audio": {"format": "wav"}}]}
            ]
        },
        "messages[0].content[0].input_audio.data",
    ),
    (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "x", "detail": "bogus"}}],
                }
            ]
        },
        "messages[0].content[0].image_url.detail",
    ),
    (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "input_audio", "input_audio": {"data": "x", "format": "ogg"}}],
                }
            ]
        },
        "messages[0].content[0].input_audio.format",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "audio_url", "audio_url": {"url": "data:"}}]}]},
        "messages[0].content[0].audio_url",
    ),
    ({"n": 0}, "n"),
    ({"n": -1}, "n"),
    ({"n": 129}, "n"),
    ({"n": 10**12}, "n"),
    ({"n": "1"}, "n"),
    ({"n": True}, "n"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": -0.1}, "temperature"),
    ({"repetition_penalty": 1e-300}, "repetition_penalty"),
    ({"top_p": 0}, "top_p"),
    ({"max_completion_tokens": 0}, "max_completion_tokens"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": 1, "max_completion_tokens": 2}, "max_tokens"),
    ({"stop": ["a"] * 5}, "stop"),
    ({"stop": ""}, "stop"),
    ({"stop": ["a", ""]}, "stop[1]"),
    ({"stop": "x" * 10**6}, "stop"),
    ({"logit_bias": {str(VOCAB_SIZE): 1}}, "logit_bias"),
    ({"logit_bias": {str(2**31): 1}}, "logit_bias"),
    ({"logit_bias": {"-1": 1}}, "logit_bias"),
    ({"logit_bias": {"abc": 1}}, "logit_bias"),
    ({"logit_bias": {"1": 101}}, "logit_bias.1"),
    ({"stop_token_ids": [VOCAB_SIZE]}, "stop_token_ids"),
    ({"stop_token_ids": [-1]}, "stop_token_ids"),
    ({"stop_token_ids": ["abc"]}, "stop_token_ids[0]"),
    ({"seed": 2**63}, "seed"),
    ({"seed": 1.5}, "seed"),
    ({"stream_options": {"include_usage": True}, "stream": False}, "stream_options"),
    ({"min_tokens": 9, "max_tokens": 8}, "min_tokens"),
    ({"store": True}, "store"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"web_search_options": {}}, "web_search_options"),
    ({"audio": {"voice": "x", "format": "wav"}}, "audio"),
    ({"service_tier": "flex"}, "service_tier"),
    ({"functions": [{"name": "f"}]}, "functions"),
    ({"function_call": "auto"}, "function_call"),
    ({"reasoning_effort": "high"}, "reasoning_effort"),
    ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type"),
    ({"tools": [FUNCTION, FUNCTION]}, "tools"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [FUNCTION], "tool_choice": {"type": "custom"}}, "tool_choice.type"),
    ({"tools": [FUNCTION], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"metadata": {"k" * 65: "v"}}, "metadata"),
    ({"safety_identifier": "x" * 65}, "safety_identifier"),
    ({"cache_salt": "a b"}, "cache_salt"),
    ({"cache_salt": ""}, "cache_salt"),
    ({"nonsense": 1}, "nonsense"),
    ({"chat_template": "{{ 1 }}"}, "chat_template"),
    ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs"),
    ({"chat_template_kwargs": {"refuse": True}}, "messages"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fields", "param"), BAD, ids=lambda value: str(value)[:50])
def test_refusals_name_the_field(fields: dict[str, Any], param: str, stream: bool) -> None:
    error = refused(Bench(), chat() | {"stream": stream} | fields)
    assert error["param"] is not None
    assert error["param"].startswith(param), error
    assert error["code"]


@pytest.mark.parametrize(
    "fields",
    [
        {"store": False},
        {"modalities": ["text"]},
        {"service_tier": "auto"},
        {"user": "u"},
        {"metadata": {"a": "b"}},
        {"prompt_cache_key": "k"},
        {"safety_identifier": "s"},
        {"prediction": {"type": "content", "content": "x"}},
        {"verbosity": "medium"},
        {"functions": []},
        {"function_call": "none"},
        {"seed": -1},
        {"seed": 2**63 - 1},
        {"tools": []},
        {"tool_choice": "none"},
        {"tools": [FUNCTION], "tool_choice": "none"},
        {"top_k": -1},
        {"response_format": {"type": "text"}},
        {"prompt_cache_retention": "24h"},
        {"parallel_tool_calls": False},
    ],
    ids=str,
)
def test_what_asks_for_nothing_is_accepted(fields: dict[str, Any]) -> None:
    assert post(Bench(), chat(**fields)).status_code == 200


def test_both_kinds_of_tool_choice_are_named() -> None:
    message = refused(Bench(), chat(tools=[FUNCTION], tool_choice={"type": "x"}))["message"]
    assert "`x`" in message
    assert message.endswith("function, allowed_tools.")


@pytest.mark.parametrize(
    "fields",
    [
        {"x" * 10**5: 1},
        {"model": "x" * 10**5},
        {"messages": [{"role": "x" * 10**5}]},
        {"messages": [{"role": "user", "content": [{"type": "x" * 10**5}]}]},
        {"tools": [FUNCTION], "tool_choice": {"type": "x" * 10**5}},
        {"stop_token_ids": [10**400]},
        {"logit_bias": {"1" * 400: 1}},
        {"seed": 10**400},
        {"chat_template_kwargs": {"tools": "x" * 10**5}},
    ],
    ids=lambda fields: str(fields)[:30],
)
def test_little_of_what_was_sent_is_repeated(fields: dict[str, Any]) -> None:
    response = post(Bench(), chat() | fields)
    assert 400 <= response.status_code < 500
    error = response.json()["error"]
    assert len(error["message"]) <= 1000
    assert len(error["param"]) <= 200
    assert "0" * 100 not in error["message"]


def test_unknown_fields_can_be_allowed(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(allow_unknown_fields=True)
    assert post(bench, {**chat(nonsense=1), "x\nERROR forged\x1b[31m": 1}).status_code == 200
    (record,) = caplog.records
    assert "nonsense" in record.getMessage()
    assert record.getMessage().isprintable()
    assert post(bench, chat(store=True)).status_code == 400


@pytest.mark.parametrize("name", ["Bytes", "gpt-4", "", "bytes "])
def test_an_unknown_model_is_404(name: str) -> None:
    assert refused(Bench(), chat() | {"model": name}, 404)["code"] == "model_not_found"


@pytest.mark.parametrize("stream", [False, True])
def test_bad_media_are_refused_before_the_stream_begins(stream: bool) -> None:
    content = [{"type": "text", "text": "x"}, image(), image("bad")]
    error = refused(Bench(), chat(content, stream=stream))
    assert (error["param"], error["code"]) == ("messages[0].content[2].image_url", "image_parse_error")


def test_too_many_media() -> None:
    bench = Bench(max_media_items=2)
    error = refused(bench, chat([image()] * 3))
    assert error["param"] == "messages[0].content[2].image_url"
    assert bench.media.num_resolved == 0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (RequestError("bad grammar", "invalid_grammar", "response_format"), 400, "invalid_grammar"),
        (RequestError("full", "overloaded"), 503, "server_is_overloaded"),
        (RequestError("<x at 0x7f0011223344>", "internal"), 500, "server_error"),
        (DEAD, 503, "engine_unavailable"),
        (KeyError("0xdeadbeef secret"), 500, "server_error"),
    ],
)
def test_failures_before_the_first_token_have_a_status(
    failure: Exception, status: int, code: str, stream: bool
) -> None:
    bench = Bench(lambda _: [failure])
    error = refused(bench, chat(stream=stream), status)
    assert error["code"] == code
    assert "0x" not in error["message"]
    assert "secret" not in error["message"]
    assert bench.state.telemetry.num_failed == 1


def test_an_answer_that_stops_without_a_reason_is_no_answer() -> None:
    refused(Bench(lambda _: say("Hello")[:3]), chat(), 500)


@pytest.fixture
def loading() -> Bench:
    bench = Bench()
    bench.state.runtime = None
    return bench


def test_not_serving_is_503_with_retry_after(loading: Bench) -> None:
    response = post(loading, chat())
    assert response.status_code == 503
    assert 1 <= int(response.headers["retry-after"]) <= 120
    draining = Bench()
    draining.state.draining = True
    assert post(draining, chat()).status_code == 503
    dead = Bench()
    dead.engine.alive = False
    assert post(dead, chat()).status_code == 503


def test_a_picture_that_comes_as_the_engine_dies_is_503() -> None:
    bench = Bench()

    async def resolve(part: object) -> None:
        raise EngineDead("the engine is gone")

    bench.media.resolve = resolve  # type: ignore[method-assign]
    response = post(bench, chat([image(), image()]))
    assert (response.status_code, response.json()["error"]["code"]) == (503, "engine_unavailable")


@pytest.mark.parametrize("blanks", [" ", "\n", "\u00a0"])
@pytest.mark.parametrize("stream", [False, True])
def test_blanks_beyond_the_context_are_too_long(blanks: str, stream: bool) -> None:
    error = refused(Bench(), chat(blanks * 200_000, stream=stream))
    assert error["code"] == "context_length_exceeded"
