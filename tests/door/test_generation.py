"""What is generated, counted and promised by a real server."""

import json
import math
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest

from tests.door.conftest import Door
from tests.door.test_openai_client import MODEL, _model_limit, _settled, ask, audio, check_usage, image, text

MIX = [image(400, 56, 56), audio(0.6)]


def filled(num_letters: int) -> dict:
    """Each of these letters is one token of the tiny tokenizer."""
    return text("Z" * num_letters)


def test_the_context_is_exact(door: Door, client: openai.OpenAI) -> None:
    limit = _model_limit(door)
    base = ask(client, *MIX, filled(100)).usage
    assert base
    letters = limit - base.prompt_tokens + 100
    for prompt_tokens in (limit - 2, limit - 1):
        answer = ask(client, *MIX, filled(letters - limit + prompt_tokens), extra_body={"ignore_eos": True})
        check_usage(answer)
        assert answer.usage
        assert answer.usage.prompt_tokens == prompt_tokens
        assert answer.usage.completion_tokens == limit - prompt_tokens
        assert answer.choices[0].finish_reason == "length"
    for prompt_tokens in (limit, limit + 1):
        with pytest.raises(openai.BadRequestError) as refusal:
            ask(client, *MIX, filled(letters - limit + prompt_tokens))
        assert refusal.value.code == "context_length_exceeded"
        assert f"{prompt_tokens} tokens" in str(refusal.value)
        assert f"{limit} tokens" in str(refusal.value)


def test_without_a_limit_an_answer_fills_the_context(door: Door, client: openai.OpenAI) -> None:
    limit = _model_limit(door)
    answer = ask(
        client, filled(limit - 60), max_completion_tokens=openai.omit, extra_body={"ignore_eos": True}
    )
    assert answer.usage
    assert answer.usage.total_tokens == limit
    assert answer.choices[0].finish_reason == "length"


def test_four_streamed_choices_are_the_whole_ones(client: openai.OpenAI) -> None:
    options = {"n": 4, "temperature": 1.0, "seed": 11, "max_completion_tokens": 12}
    whole = ask(client, *MIX, text("Four"), **options)
    stream = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": [*MIX, text("Four")]}],  # type: ignore[typeddict-item]
        stream=True,
        stream_options={"include_usage": True},
        **options,  # type: ignore[arg-type]
    )
    told = ["", "", "", ""]
    reasons: list[str | None] = [None] * 4
    usage = None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            told[choice.index] += choice.delta.content or ""
            assert choice.finish_reason is None or reasons[choice.index] is None
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
    assert told == [choice.message.content for choice in whole.choices]
    assert reasons == [choice.finish_reason for choice in whole.choices]
    assert usage
    assert whole.usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (
        whole.usage.prompt_tokens,
        whole.usage.completion_tokens,
    )


def test_a_seed_means_the_same_alone_and_in_company(client: openai.OpenAI) -> None:
    prompts = [f"Prompt number {number % 4}" for number in range(12)]

    def answer(prompt: str) -> str | None:
        options = {"temperature": 1.0, "seed": 5, "max_completion_tokens": 24}
        return ask(client, text(prompt), **options).choices[0].message.content

    alone = {prompt: answer(prompt) for prompt in set(prompts)}
    with ThreadPoolExecutor(12) as pool:
        together = list(pool.map(answer, prompts))
    assert together == [alone[prompt] for prompt in prompts]
    assert len(set(together)) == 4


def test_logprobs_under_a_grammar_are_finite(client: openai.OpenAI) -> None:
    for options in (
        {"extra_body": {"structured_outputs": {"regex": "[ab]{6}"}}},
        {"extra_body": {"structured_outputs": {"choice": ["aab", "bba"]}}},
        {"extra_body": {"top_k": 1}, "temperature": 1.0},
    ):
        choice = ask(client, text("Letters"), logprobs=True, top_logprobs=20, **options).choices[0]
        assert choice.logprobs
        assert choice.logprobs.content
        for token in choice.logprobs.content:
            values = [token.logprob, *(top.logprob for top in token.top_logprobs)]
            assert all(math.isfinite(value) and -9999 <= value <= 0 for value in values)
        regex = options["extra_body"].get("structured_outputs", {}).get("regex")
        if regex:
            assert re.fullmatch(regex, choice.message.content or "")
            assert choice.finish_reason == "stop"


def test_a_lark_grammar_is_followed(client: openai.OpenAI) -> None:
    grammar = 'start: "x" (digit "+")* digit\ndigit: /[0-9]/\n'
    options = {"max_completion_tokens": 40, "extra_body": {"structured_outputs": {"grammar": grammar}}}
    choice = ask(client, text("Sum"), **options, temperature=1.0, seed=3).choices[0]
    assert re.match(r"x([0-9]\+)*([0-9]$|$)", choice.message.content or "")


def test_greedy_takes_the_first_and_streams_agree(client: openai.OpenAI) -> None:
    options = {"logprobs": True, "top_logprobs": 5, "max_completion_tokens": 10}
    whole = ask(client, *MIX, text("Greedy"), **options).choices[0].logprobs
    assert whole
    assert whole.content
    for token in whole.content:
        assert token.token == token.top_logprobs[0].token
        assert token.logprob == token.top_logprobs[0].logprob
        ordered = [top.logprob for top in token.top_logprobs]
        assert ordered == sorted(ordered, reverse=True)
        assert sum(math.exp(value) for value in ordered) <= 1.0001
        assert bytes(token.bytes or ()).decode("utf-8", "replace") == token.token
    stream = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": [*MIX, text("Greedy")]}],  # type: ignore[typeddict-item]
        stream=True,
        temperature=0,
        **options,  # type: ignore[arg-type]
    )
    streamed = [
        token
        for chunk in stream
        for choice in chunk.choices
        if choice.logprobs
        for token in choice.logprobs.content or ()
    ]
    assert [(token.token, token.bytes) for token in streamed] == [(t.token, t.bytes) for t in whole.content]
    assert [token.logprob for token in streamed] == pytest.approx(
        [t.logprob for t in whole.content], abs=1e-4
    )


def test_many_schemas_leave_nothing_behind(client: openai.OpenAI) -> None:
    files = set(Path(tempfile.gettempdir()).iterdir())

    def answer(number: int) -> dict:
        schema = {
            "type": "object",
            "properties": {f"k{number}": {"enum": ["a", "b"]}},
            "required": [f"k{number}"],
            "additionalProperties": False,
        }
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
        choice = ask(client, text("JSON"), response_format=form, max_completion_tokens=40).choices[0]
        assert choice.finish_reason == "stop"
        return json.loads(choice.message.content or "")

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(answer, range(80)))
    assert [list(found) for found in answers] == [[f"k{number}"] for number in range(80)]
    new = {path.name for path in set(Path(tempfile.gettempdir()).iterdir()) - files}
    assert not [name for name in new if "guidance" in name or "outlines" in name]


def test_no_hit_across_salts(client: openai.OpenAI) -> None:
    parts = [text("Salted " * 20), image(410)]

    def cached(salt: str | None) -> int:
        answer = ask(client, *parts, extra_body={"cache_salt": salt})
        assert answer.usage
        assert answer.usage.prompt_tokens_details
        return answer.usage.prompt_tokens_details.cached_tokens or 0

    assert cached("one") == 0
    assert cached("one") > 0
    assert cached("two") == 0
    assert cached(None) < cached("one") // 2, "the template's own words, which other tests have said"


def test_another_salt_costs_what_a_first_request_costs(door: Door, client: openai.OpenAI) -> None:
    """So the time until its first token can't tell that another tenant has sent the same."""
    parts = [text("Salted again " * 20), image(411), audio(0.7, 350)]

    def work(salt: str) -> dict[str, float]:
        before = _settled(door)
        ask(client, *parts, extra_body={"cache_salt": salt})
        after = _settled(door)
        return {
            name: after[f"intarsia_engine_{name}_total"] - before[f"intarsia_engine_{name}_total"]
            for name in WORK
        }

    first = work("three")
    assert first["encoder_runs"] == 2
    assert first["cached_prompt_tokens"] == 0
    assert work("four") == first
    assert work("three") != first


WORK = ("computed_prompt_tokens", "cached_prompt_tokens", "encoder_runs", "encoder_hits", "media_requested")
