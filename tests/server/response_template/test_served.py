"""A server whose checkpoint has a response template: answers, streams, forced and strict calls."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from models.checkpoint import Checkpoint
from server.detokenizer import Detokenizer
from server.loading import _read
from server.response_template.call_form import call_form
from server.response_template.search_time import SearchTime
from server.response_template.template import ResponseTemplate
from server.tokenizer import Tokenizer
from server.tools.form import CallForm
from server.tools.grammar import forced_call, strict_calls
from tests.checkpoints import tiny_llama
from tests.server.chat_client import post, refused
from tests.server.fakes import Bench, Script, chat, say
from tests.server.grammar_words import GrammarWords
from tests.server.live import serving
from tests.server.response_template.examples import CHANNELS, CHATML, EXAMPLES, LOOSE_JSON

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALL = EXAMPLES["channels"].text


def bench(text: str | Script, template: dict[str, Any], prompt: str = "") -> Bench:
    made = Bench(text)
    runtime = made.state.serving()
    loaded = ResponseTemplate.load(template)
    facts = runtime.facts._replace(call_form=call_form(loaded))
    made.state.runtime = dataclasses.replace(runtime, response_template=loaded, facts=facts)
    return made


def message(served: Bench, request: dict[str, Any]) -> dict[str, Any]:
    return post(served, request).json()["choices"][0]["message"]


def test_an_answer_is_taken_apart() -> None:
    choice = post(bench(CALL, CHANNELS), chat(tools=[TOOL])).json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert choice["message"]["reasoning_content"] == "hm"
    (call,) = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": '{"a": "b"}'}


def test_thoughts_count_as_such() -> None:
    text = "<|channel|>analysis<|message|>hm<|end|><|channel|>final<|message|>Hello"
    body = post(bench(text, CHANNELS), chat()).json()
    assert body["choices"][0]["message"]["content"] == "Hello"
    assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == len("hm<|end|>")


def test_the_official_client_joins_its_stream() -> None:
    with serving(bench(CALL + CALL, CHANNELS)) as port:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x", max_retries=0)
        with client.chat.completions.stream(**chat(tools=[TOOL])) as events:
            for _ in events:
                pass
            (choice,) = events.get_final_completion().choices
    calls = choice.message.tool_calls or []
    assert [(call.function.name, call.function.arguments) for call in calls] == [("f", '{"a": "b"}')] * 2
    assert len({call.id for call in calls}) == 2


def test_one_call_where_calls_may_not_be_parallel() -> None:
    served = bench(CALL + CALL, CHANNELS)
    found = message(served, chat(tools=[TOOL], parallel_tool_calls=False))
    assert len(found["tool_calls"]) == 1
    assert (len(served.engine.stopped), served.engine.num_aborted) == (1, 0)


def test_without_tools_a_call_is_text() -> None:
    text = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    choice = post(bench(text, CHATML), chat()).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (text, "stop")


def test_the_prompt_may_have_begun_a_thought() -> None:
    found = message(bench("hm</think>Yes", CHATML), chat("<|im_start|>assistant\n<think>"))
    assert (found["reasoning_content"], found["content"]) == ("hm", "Yes")


@pytest.mark.parametrize("template", [CHANNELS, CHATML])
def test_a_forced_call_is_read_in_the_form_that_was_forced(template: dict[str, Any]) -> None:
    text = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    served = bench(text, template)
    prompt = "<|im_start|>assistant\n<think>"
    found = message(served, chat(prompt, tools=[TOOL], tool_choice="required"))
    assert found["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a": 1}'}
    grammar = served.engine.requests[0].grammar
    assert grammar is not None
    assert "<tool_call>" in grammar.definition


def test_a_schema_makes_the_whole_answer() -> None:
    found = message(bench('{"a": "<think>"}', CHATML), chat(response_format={"type": "json_object"}))
    assert found["content"] == '{"a": "<think>"}'


def test_strict_is_refused_where_no_grammar_can_enforce_it() -> None:
    tool = {"type": "function", "function": {**TOOL["function"], "strict": True}}  # type: ignore[dict-item]
    assert refused(bench("", LOOSE_JSON), chat(tools=[tool]))["param"] == "tools"
    assert post(bench("x", CHATML), chat(tools=[tool])).status_code == 200


FORM = CallForm("<|call|>", "<|done|>", "tool", "args")


@pytest.mark.parametrize(
    "make", [lambda *a: forced_call(a[0], True, *a[1:]), strict_calls], ids=["forced", "strict"]
)
@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ('<|call|>{"tool": "f", "args": {"a": 1}}<|done|>', True),
        ('<|call|>{"name": "f"', False),
        ('<|call|>\n{"tool": "f"', False),
    ],
)
def test_a_grammar_of_the_checkpoints_own_form(
    make: Callable[..., Any], text: str, allowed: bool, tmp_path: Path
) -> None:
    words = GrammarWords(tmp_path, ("<|call|>", "<|done|>"))
    grammar = make([TOOL["function"]], words.tag_ids, FORM)
    assert words.allows(grammar, text) is allowed


def test_special_tokens_that_the_template_looks_for_are_text(tmp_path: Path) -> None:
    directory = tiny_llama(tmp_path)
    path = directory / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"response_template": CHATML}))
    front = _read(Checkpoint.open(str(directory)))
    assert front.response_template is not None
    tokenizer = Tokenizer.from_checkpoint(Checkpoint.open(str(directory)))
    end = tokenizer.added_tokens["<|im_end|>"]
    assert front.response_template.mentions("<|im_end|>")
    assert not front.response_template.mentions("<|im_start|>")
    ids = [*tokenizer.encode_plain("a"), end]
    assert Detokenizer(tokenizer).push(ids) == "a"
    assert Detokenizer(tokenizer, frozenset({end})).push(ids) == "a<|im_end|>"


def test_the_choices_of_a_request_share_the_time_of_its_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SearchTime] = []
    monkeypatch.setattr("server.reading.SearchTime", lambda: made.append(SearchTime(0.0)) or made[-1])
    served = bench(lambda _: [step for choice in range(3) for step in say(CALL, choice=choice)], CHANNELS)
    choices = post(served, chat(tools=[TOOL], n=3)).json()["choices"]
    assert [choice["message"]["content"] for choice in choices] == [CALL] * 3, "no time: text as it came"
    assert len(made) == 1
