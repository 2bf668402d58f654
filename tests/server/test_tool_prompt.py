"""Conversations with tools: by the template that is published for them, and with ids that it takes."""

from typing import Any

import pytest

from server.prompt import PromptBuilder
from tests.server.checkpoints import CHATML, FakeCheckpoint, FakeProcessing
from tests.server.response_template import chat_templates as written
from tests.server.test_tokenizer import LIBRARY, OURS

NAME = "byte level"
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


def rendered(
    template: str, messages: list[dict[str, Any]], tools: Any = None, tool_template: str | None = None
) -> str:
    checkpoint: Any = FakeCheckpoint(template, own_tool_template=tool_template)
    processing: Any = FakeProcessing(LIBRARY[NAME])
    prompt = PromptBuilder(checkpoint, OURS[NAME], processing).render(messages, tools=tools)
    return OURS[NAME].decode(prompt.sequence.ids, skip_special_tokens=False)


def with_calls(*ids: str) -> list[dict[str, Any]]:
    function = {"name": "f", "arguments": {"a": 1}}
    calls = [{"id": call_id, "type": "function", "function": function} for call_id in ids]
    answers = [{"role": "tool", "content": "done", "tool_call_id": call_id} for call_id in ids]
    asked = {"role": "user", "content": "Q?"}
    return [asked, {"role": "assistant", "content": "", "tool_calls": calls}, *answers]


def test_tools_have_the_template_that_is_published_for_them() -> None:
    own = "{{ tools | tojson }}" + CHATML
    messages = [{"role": "user", "content": "Hi"}]
    assert rendered(CHATML, messages, TOOLS, own) == rendered(own, messages, TOOLS)
    assert rendered(CHATML, messages, TOOLS, own) != rendered(CHATML, messages, TOOLS)
    for nothing in (None, []):
        assert rendered(CHATML, messages, nothing, own) == rendered(CHATML, messages)


@pytest.mark.parametrize("ids", [("call_0123456789abcdef01234567", "call_1"), ("x" * 40, "a-b_c.d:e")])
def test_a_template_that_wants_nine_characters_gets_them(ids: tuple[str, ...]) -> None:
    shown = rendered(written.LISTED, with_calls(*ids))
    first, second = (part.split('"')[0] for part in shown.split('"id": "')[1:])
    assert len({first, second}) == 2
    for made in (first, second):
        assert len(made) == 9
        assert made.isalnum()
        assert f"done{made}[/TOOL_RESULTS]" in shown, "an answer names the call that it answers"
    assert rendered(written.LISTED, with_calls(*ids)) == shown, "or nothing would be found in the cache"


def test_arguments_that_are_no_object_are_not_lost_where_an_id_is_shown() -> None:
    template = (
        "{%- for m in messages %}{%- for call in m.tool_calls or [] %}{{ call.id }}"
        "{%- if call.function.arguments is mapping %}{{ call.function.arguments | tojson }}{%- endif %}"
        "{%- endfor %}{%- endfor %}"
    )
    messages = with_calls("call_1")[:2]
    messages[1]["tool_calls"][0]["function"]["arguments"] = "no object"
    assert "no object" in rendered(template, messages)


def test_ids_that_a_template_takes_stay() -> None:
    assert '"id": "abcde1234"' in rendered(written.LISTED, with_calls("abcde1234"))
    template = written.LISTED.replace("!= 9", "< 1")
    assert '"id": "call_1"' in rendered(template, with_calls("call_1"))
