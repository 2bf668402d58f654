"""The chat template, as the server renders it."""

from pathlib import Path

import pytest

from server.template import ChatTemplate, TemplateError

SOURCE = Path(__file__).parents[2] / "models" / "smol_omni" / "chat_template.jinja"
SYSTEM = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"


@pytest.fixture(scope="module")
def template() -> ChatTemplate:
    return ChatTemplate(SOURCE.read_text())


def test_text_is_framed_as_its_authors_frame_it(template: ChatTemplate) -> None:
    parts = [{"type": "text", "text": "Good "}, {"type": "text", "text": "morning."}]
    for content in (parts, "Good morning."):
        assert template.render([{"role": "user", "content": content}]) == (
            f"{SYSTEM}<|im_end|>\n<|im_start|>user\nGood morning.<|im_end|>\n<|im_start|>assistant\n"
        )


def test_calls_and_results_of_tools_are_shown_to_it(template: ChatTemplate) -> None:
    call = {"type": "function", "function": {"name": "look", "arguments": {"at": 1}}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "nothing"},
    ]
    rendered = template.render(messages, tools=[{"type": "function", "function": {"name": "look"}}])
    assert rendered.startswith("<|im_start|>system\nBe brief.\n\n# Tools\n")
    assert '<tools>\n{"type": "function", "function": {"name": "look"}}\n</tools>' in rendered
    assert rendered.endswith(
        "<|im_start|>user\nLook.<|im_end|>\n<|im_start|>assistant\n<tool_call>\n"
        '{"name": "look", "arguments": {"at": 1}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\nnothing\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    "content", [[{"type": "audio"}, {"type": "text", "text": " Now."}], "<|AUDIO|> Now."]
)
def test_a_sound_stands_where_its_words_would(template: ChatTemplate, content: object) -> None:
    assert "<|im_start|>user\n<|AUDIO|> Now.<|im_end|>" in template.render(
        [{"role": "user", "content": content}]
    )


@pytest.mark.parametrize("content", [[{"type": "image"}], [{"type": "video"}], "<|IMAGE|>What?"])
def test_pictures_are_refused(template: ChatTemplate, content: object) -> None:
    with pytest.raises(TemplateError, match="it does not see"):
        template.render([{"role": "user", "content": content}])
