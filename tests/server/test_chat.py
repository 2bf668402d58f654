"""POST /v1/chat/completions, with a scripted engine: what is asked, what comes back, and what is refused."""

import time
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from openai.types.completion_usage import CompletionTokensDetails, PromptTokensDetails

from engine.messages import TokenLogprobs, TokensGenerated
from server.validated import AS_MANY_AS_FIT
from tests.server.chat_client import chunks, joined, post, refused
from tests.server.fakes import EOS, MAX_MODEL_LEN, Bench, chat, image, say


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


@pytest.mark.parametrize(("cached", "written"), [(0, 40), (17, 23), (38, 2), (39, 0)])
def test_usage_says_what_goes_into_the_cache(cached: int, written: int) -> None:
    """39 letters and the template's one make 40; the last is computed even if it was there."""
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
    assert len(bench.engine.stopped) == (2 if expected != "ABCDEFGHIJKLM" else 0)
    assert bench.engine.num_aborted == 0, "an end like any other"


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
