"""Tool calls from a real engine, whose model knows nothing: what comes out right is right by grammar."""

import json
from collections.abc import Iterator

import openai
import pytest

from tests.checkpoints import tiny_caller
from tests.door.conftest import Door, start, stop

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Bern", "東京"]}, "days": {"enum": [1, 2, 3]}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
CLOCK = {
    "type": "function",
    "function": {
        "name": "clock",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    },
}
STRICT = {"type": "function", "function": {**WEATHER["function"], "strict": True}}  # type: ignore[dict-item]
QUESTION = {"role": "user", "content": "What is the weather?"}


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("caller")
    directory = folder / "caller"
    directory.mkdir()
    tiny_caller(directory)
    served = start(directory, folder / "server.log")
    yield served
    assert stop(served) == 0


def ask(caller: Door, **options: object) -> openai.types.chat.ChatCompletion:
    options = {"messages": [QUESTION], "temperature": 1.0, "seed": 4, "max_completion_tokens": 200} | options
    with caller.client() as client:
        return client.chat.completions.create(model="caller", **options)  # type: ignore[call-overload]


def opening(caller: Door) -> int:
    """The id of the tag that opens a call."""
    vocabulary = json.loads((caller.directory / "tokenizer.json").read_text())
    return next(token["id"] for token in vocabulary["added_tokens"] if token["content"] == "<tool_call>")


def check_weather(arguments: str) -> None:
    parsed = json.loads(arguments)
    assert set(parsed) == {"city", "days"}
    assert parsed["city"] in ("Bern", "東京")
    assert parsed["days"] in (1, 2, 3)


def test_a_text_model_refuses_pictures(caller: Door) -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(openai.BadRequestError, match="does not take image input") as refusal:
        ask(caller, messages=[{"role": "user", "content": [part]}])
    assert refusal.value.param == "messages[0].content[0].image_url"
    assert ask(caller).choices


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "weather"}}], ids=str
)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_required_call_follows_its_schema(caller: Door, choice: object, seed: int) -> None:
    options = {"tools": [WEATHER, CLOCK], "tool_choice": choice, "parallel_tool_calls": False, "seed": seed}
    answer = ask(caller, **options).choices[0]
    assert answer.finish_reason == "tool_calls"
    (call,) = answer.message.tool_calls or ()
    assert call.type == "function"
    if call.function.name == "weather":
        check_weather(call.function.arguments)
    else:
        assert (choice, json.loads(call.function.arguments)) == ("required", {})
    with (
        caller.client() as client,
        client.chat.completions.stream(
            model="caller",
            messages=[QUESTION],
            temperature=1.0,
            max_completion_tokens=200,
            **options,  # type: ignore[arg-type]
        ) as events,
    ):
        for _ in events:
            pass
        (streamed,) = events.get_final_completion().choices[0].message.tool_calls or ()
    assert (streamed.function.name, streamed.function.arguments) == (
        call.function.name,
        call.function.arguments,
    )


def test_several_calls_at_once(caller: Door) -> None:
    answer = ask(caller, tools=[WEATHER], tool_choice="required", max_completion_tokens=1500).choices[0]
    calls = answer.message.tool_calls or []
    assert calls
    assert len({call.id for call in calls}) == len(calls)
    for call in calls[: -1 if answer.finish_reason == "length" else None]:
        assert call.type == "function"
        check_weather(call.function.arguments)


def test_strict_binds_a_call_that_the_model_chose_to_begin(caller: Door) -> None:
    """The bias makes it begin one, again and again; only the grammar makes it go on as the schema says."""
    eager = {"logit_bias": {str(opening(caller)): 100}, "parallel_tool_calls": False}
    answer = ask(caller, tools=[STRICT, CLOCK], **eager).choices[0]
    assert answer.finish_reason == "tool_calls"
    (call,) = answer.message.tool_calls or ()
    assert call.type == "function"
    if call.function.name == "weather":
        check_weather(call.function.arguments)
    loose = ask(caller, tools=[WEATHER, CLOCK], **eager).choices[0]
    assert not loose.message.tool_calls, "the test shows nothing if this happens by itself"


def test_strict_leaves_text_free(caller: Door) -> None:
    avoid = {"logit_bias": {str(opening(caller)): -100}, "max_completion_tokens": 20}
    free = ask(caller, tools=[STRICT], **avoid).choices[0]
    loose = ask(caller, tools=[STRICT], **avoid, tool_choice="none").choices[0]
    assert not free.message.tool_calls
    assert free.message.content
    assert loose.message.content


ANSWER = {
    "type": "json_schema",
    "json_schema": {
        "name": "colour",
        "schema": {
            "type": "object",
            "properties": {"colour": {"enum": ["red", "blue"]}},
            "required": ["colour"],
            "additionalProperties": False,
        },
    },
}


@pytest.mark.parametrize("tool", [WEATHER, STRICT], ids=["loose", "strict"])
def test_calls_or_a_structured_answer(caller: Door, tool: dict) -> None:
    """The bias decides which of them the model begins; either follows its schema."""
    for bias in (100, -100):
        options = {"logit_bias": {str(opening(caller)): bias}, "parallel_tool_calls": False}
        answer = ask(caller, tools=[tool], response_format=ANSWER, **options).choices[0]
        if bias > 0:
            assert (answer.finish_reason, answer.message.content) == ("tool_calls", None)
            (call,) = answer.message.tool_calls or ()
            assert call.type == "function"
            check_weather(call.function.arguments)
        else:
            assert (answer.finish_reason, answer.message.tool_calls) == ("stop", None)
            assert json.loads(answer.message.content or "")["colour"] in ("red", "blue")


def test_a_conversation_with_results_goes_on(caller: Door) -> None:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city": "Bern", "days": 1}'},
    }
    messages = [
        QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Rain <tool_call>"},
    ]
    answer = ask(caller, messages=messages, tools=[WEATHER])
    shorter = ask(caller, messages=messages[:1], tools=[WEATHER])
    assert answer.usage
    assert shorter.usage
    assert answer.usage.prompt_tokens > shorter.usage.prompt_tokens
