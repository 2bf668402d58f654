"""POST /v1/chat/completions, with a scripted engine: what is asked, what comes back, and what is refused."""

import json
import time
from dataclasses import replace
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
from openai.types.completion_usage import CompletionTokensDetails, PromptTokensDetails

from engine.client import RequestError
from engine.messages import TokenLogprobs, TokensGenerated
from server.app import create_app
from server.validated import AS_MANY_AS_FIT
from tests.server.fakes import DEAD, EOS, MAX_MODEL_LEN, VOCAB_SIZE, Bench, chat, image, say

URL = "/v1/chat/completions"


def client(bench: Bench) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_app(bench.state), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://server")


def post(bench: Bench, body: Any, **more: Any) -> httpx.Response:
    import asyncio

    async def run() -> httpx.Response:
        async with client(bench) as http:
            if isinstance(body, bytes | str):
                headers = {"content-type": "application/json", **more.pop("headers", {})}
                return await http.post(URL, content=body, headers=headers, **more)
            return await http.post(URL, json=body, **more)

    return asyncio.run(run())


def refused(bench: Bench, body: Any, status: int = 400) -> dict[str, Any]:
    response = post(bench, body)
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    bench.assert_idle()
    return error


def events(response: httpx.Response) -> list[Any]:
    assert response.status_code == 200, response.text
    assert response.text.endswith("\n\n")
    return [
        part[6:] if part == "data: [DONE]" else json.loads(part[6:])
        for part in response.text.split("\n\n")
        if part.startswith("data: ")
    ]


def chunks(bench: Bench, **fields: Any) -> list[dict[str, Any]]:
    *found, done = events(post(bench, chat(stream=True, **fields)))
    assert done == "[DONE]"
    bench.assert_idle()
    return found


def joined(found: list[dict[str, Any]], index: int = 0) -> str:
    return "".join(
        choice["delta"].get("content") or ""
        for chunk in found
        for choice in chunk["choices"]
        if choice["index"] == index
    )


def test_whole_answer_has_every_published_key() -> None:
    bench = Bench(lambda _: say("Hello", cached=1))
    response = post(bench, chat())
    body = response.json()
    assert response.headers["x-request-id"]
    assert {"id", "object", "created", "model", "choices", "usage"} <= set(body)
    assert body["object"] == "chat.completion"
    (choice,) = body["choices"]
    assert choice["message"]["content"] == "Hello"
    assert choice["message"]["refusal"] is None
    assert choice["logprobs"] is None
    assert choice["finish_reason"] == "stop"
    usage = body["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (3, 6, 9)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 1
    assert set(usage["prompt_tokens_details"]) == PromptTokensDetails.model_fields.keys()
    assert set(usage["completion_tokens_details"]) == CompletionTokensDetails.model_fields.keys()
    bench.assert_idle()


@pytest.mark.parametrize(("cached", "written"), [(0, 32), (16, 16), (32, 0)])
def test_usage_says_what_goes_into_the_cache(cached: int, written: int) -> None:
    """Whole blocks of 16 tokens; 39 letters and the template's one make 40."""
    details = post(Bench(lambda _: say("Hello", cached=cached)), chat("x" * 39)).json()["usage"][
        "prompt_tokens_details"
    ]
    assert (details["cached_tokens"], details["cache_write_tokens"]) == (cached, written)


def test_a_certain_token_has_no_negative_zero() -> None:
    (event, *_) = say("A")
    event = msgspec.structs.replace(
        event, finish_reason="stop", logprobs=(TokenLogprobs(-0.0, ((65, -0.0),)),)
    )
    (token,) = post(Bench(lambda _: [event]), chat(logprobs=True, top_logprobs=1)).json()["choices"][0][
        "logprobs"
    ]["content"]
    assert [str(token["logprob"]), str(token["top_logprobs"][0]["logprob"])] == ["0.0", "0.0"]


def test_stream_begins_with_roles_in_order_and_ends_with_usage() -> None:
    def script(_: Any) -> list[Any]:
        return [*say("one", choice=1), *say("zero", choice=0)]

    found = chunks(Bench(script), n=2, stream_options={"include_usage": True})
    first, second = found[0]["choices"][0], found[1]["choices"][0]
    assert (first["index"], second["index"]) == (0, 1)
    assert first["delta"]["role"] == second["delta"]["role"] == "assistant"
    assert len({(chunk["id"], chunk["created"]) for chunk in found}) == 1
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in found)
    assert (joined(found, 0), joined(found, 1)) == ("zero", "one")
    reasons = [c["index"] for chunk in found for c in chunk["choices"] if c["finish_reason"]]
    assert sorted(reasons) == [0, 1]
    assert found[-1]["choices"] == []
    assert found[-1]["usage"]["completion_tokens"] == 9
    assert all(chunk["usage"] is None for chunk in found[:-1])
    whole = post(Bench(script), chat(n=2)).json()
    assert whole["usage"] == found[-1]["usage"]
    assert [c["message"]["content"] for c in whole["choices"]] == ["zero", "one"]


def test_stream_headers_forbid_buffering() -> None:
    response = post(Bench(), chat(stream=True), headers={"accept-encoding": "gzip"})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in response.headers
    assert "\nid:" not in response.text


@pytest.mark.parametrize("text", ["👩‍👩‍👧 family", "日本語", "e\u0301\u0323 marks", "\U0001f600"])
def test_characters_are_never_cut(text: str) -> None:
    found = chunks(Bench(text), logprobs=True)
    assert joined(found) == text
    assert all("\ufffd" not in (c["delta"].get("content") or "") for chunk in found for c in chunk["choices"])
    tokens = [
        t for chunk in found for c in chunk["choices"] for t in (c["logprobs"] or {}).get("content") or []
    ]
    assert bytes(byte for token in tokens for byte in token["bytes"]).decode() == text
    whole = post(Bench(text), chat(logprobs=True)).json()["choices"][0]["logprobs"]["content"]
    assert whole == tokens


def test_half_a_character_at_the_end_is_flushed() -> None:
    event = TokensGenerated("", 0, (0xF0, 0x9F), "length")
    assert post(Bench(lambda _: [event]), chat()).json()["choices"][0]["message"]["content"] == "\ufffd"


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("DEFGHIJ", "ABC"),
        (["ZZZ", "FG"], "ABCDE"),
        (["GHI", "FGH"], "ABCDE"),
        ("A", ""),
        ("ABCDEFGHIJKLM", ""),
        ("DEFX", "ABCDEFGHIJKLM"),
        ("KLMN", "ABCDEFGHIJKLM"),
    ],
)
def test_stop_strings(stop: Any, expected: str) -> None:
    bench = Bench("ABCDEFGHIJKLM")
    found = chunks(bench, stop=stop, logprobs=True)
    assert joined(found) == expected
    assert post(bench, chat(stop=stop)).json()["choices"][0]["message"]["content"] == expected
    assert [c["finish_reason"] for chunk in found for c in chunk["choices"] if c["finish_reason"]] == ["stop"]
    tokens = [
        t for chunk in found for c in chunk["choices"] for t in (c["logprobs"] or {}).get("content") or []
    ]
    assert "".join(token["token"] for token in tokens) == expected
    assert bench.engine.num_aborted == (2 if expected != "ABCDEFGHIJKLM" else 0)


@pytest.mark.parametrize(
    ("text", "stop", "expected"),
    [
        ("a👩‍👩‍👧b", "\u200d", "a👩"),
        ("e\u0301a", "\u0301", "e"),
        ("日本語", "本", "日"),
        ("xx🎉", "🎉", "xx"),
    ],
)
def test_stop_strings_inside_characters(text: str, stop: str, expected: str) -> None:
    assert joined(chunks(Bench(text), stop=stop)) == expected


def test_a_stopped_choice_stops_computing_while_others_go_on() -> None:
    def script(_: Any) -> list[Any]:
        pairs = zip(say("abSTOPcd", choice=0), say("everything", choice=1), strict=False)
        return [event for pair in pairs for event in pair] + say("everything", choice=1)[9:]

    bench = Bench(script)
    found = chunks(bench, n=2, stop="STOP")
    assert (joined(found, 0), joined(found, 1)) == ("ab", "everything")
    assert [choice for _, choice in bench.engine.stopped] == [0]
    assert bench.state.telemetry.num_completion_tokens == 6 + 11
    bench.assert_idle()


def test_a_wild_n_is_refused_at_once() -> None:
    started = time.process_time()
    for n in (0, -1, 129, 10**12):
        refused(Bench(), chat(n=n))
    assert time.process_time() - started < 4 * 0.05


def test_a_picture_in_markdown_is_text() -> None:
    bench = Bench(allowed_media_domains="127.0.0.1")
    text = "![x](http://127.0.0.1:1/x.png) <img src='http://127.0.0.1:1/x.png'>"
    assert post(bench, chat(text)).status_code == 200
    assert bench.media.num_resolved == 0
    assert bench.engine.requests[0].ids == np.array([*text.encode(), ord(">")], "<i4").tobytes()


def test_logprobs_are_finite_and_ordered() -> None:
    event = TokensGenerated(
        "", 0, (66,), "length", 0, (TokenLogprobs(float("-inf"), ((66, -0.1), (65, float("-inf")))),)
    )
    content = post(Bench(lambda _: [event]), chat(logprobs=True, top_logprobs=2)).json()["choices"][0][
        "logprobs"
    ]["content"]
    assert content[0]["logprob"] == -9999.0
    assert [top["token"] for top in content[0]["top_logprobs"]] == ["B", "A"]


def test_nulls_are_absent() -> None:
    from server.schema.chat import ChatRequest

    body = chat() | {name: None for name in ChatRequest.model_fields if name not in ("model", "messages")}
    assert post(Bench(), body).status_code == 200


def test_the_engine_gets_what_was_asked() -> None:
    bench = Bench()
    body = chat(
        [{"type": "text", "text": "ab"}, image(), image("data:x"), image()],
        temperature=0,
        top_p=0.5,
        top_k=7,
        min_p=0.1,
        seed=-1,
        n=3,
        max_completion_tokens=5,
        logit_bias={"65": -100},
        frequency_penalty=1,
        presence_penalty=-1,
        repetition_penalty=1.5,
        stop_token_ids=[10],
        min_tokens=2,
    )
    post(bench, body)
    (request,) = bench.engine.requests
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0, 0.5, 7, 0.1)
    assert (sampling.max_tokens, sampling.min_tokens, sampling.stop_token_ids) == (5, 2, (10, EOS))
    assert sampling.logit_bias == {65: -100.0}
    assert (sampling.frequency_penalty, sampling.presence_penalty, sampling.repetition_penalty) == (
        1,
        -1,
        1.5,
    )
    assert request.num_choices == 3
    assert request.spans == ((2, 6, 0, 0), (6, 10, 1, 0), (10, 14, 0, 0))
    assert len(request.media) == 2


def test_a_limit_of_any_size_reaches_the_engine() -> None:
    """Which cuts it to what fits."""
    bench = Bench()
    post(bench, chat())
    post(bench, chat(max_tokens=10**30))
    assert [request.sampling.max_tokens for request in bench.engine.requests] == [AS_MANY_AS_FIT] * 2


def test_a_prompt_that_fills_the_context_is_refused_with_counts() -> None:
    error = refused(Bench(), chat("x" * MAX_MODEL_LEN, stream=True))
    assert error["code"] == "context_length_exceeded"
    assert str(MAX_MODEL_LEN + 1) in error["message"]


def test_text_that_can_not_fit_is_refused_before_it_is_rendered() -> None:
    bench = Bench()
    assert bench.state.runtime is not None
    facts = bench.state.runtime.facts._replace(max_token_chars=4)
    bench.state.runtime = replace(bench.state.runtime, facts=facts)
    error = refused(bench, chat("x" * (4 * MAX_MODEL_LEN)))
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")
    assert f"at least {MAX_MODEL_LEN} tokens" in error["message"]
    assert not bench.prompts.seen
    post(bench, chat("x" * (4 * MAX_MODEL_LEN - 4)))
    assert bench.prompts.seen, "what might fit is looked at"


def test_tenants_and_salts_have_namespaces_of_their_own() -> None:
    bench = Bench(api_key=("a:k1", "b:k2"))
    for key, salt in (("k1", None), ("k2", None), ("k1", "s"), ("k1", "s")):
        post(bench, chat(cache_salt=salt), headers={"authorization": f"Bearer {key}"})
    namespaces = [request.namespace for request in bench.engine.requests]
    assert namespaces[2] == namespaces[3]
    assert len(set(namespaces)) == 3


FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "messages"),
    ({"messages": "x"}, "messages"),
    ({"messages": [123]}, "messages[0]"),
    ({"messages": [{}]}, "messages[0]"),
    ({"messages": [{"role": "king", "content": "x"}]}, "messages[0]"),
    ({"messages": [{"role": "function", "content": "x", "name": "f"}]}, "messages[0]"),
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
        "messages[0].content[0]",
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


def test_unknown_fields_can_be_allowed() -> None:
    bench = Bench(allow_unknown_fields=True)
    assert post(bench, chat(nonsense=1)).status_code == 200
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
