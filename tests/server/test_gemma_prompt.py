"""Prompts of Gemma 3, whose template folds the system's words into the user's turn and whose processor writes
line breaks around pictures: token for token what transformers' processor gives."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from transformers import PreTrainedTokenizerFast
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.gemma3.processing_gemma3 import Gemma3Processor

from kvcache.keys import media_key
from models.checkpoint import Checkpoint
from models.registry import load_processing
from server.media.item import ResolvedMedia
from server.prompt import PromptBuilder, RenderedPrompt
from server.template import TemplateError
from server.tokenizer import Tokenizer
from tests.checkpoints_gemma import END, MARKER, SOFT, TOKENS, tiny_gemma3

PICTURE, AGAIN = {"type": "image"}, {"type": "image"}
CHATS: dict[str, list[dict[str, Any]]] = {
    "text": [{"role": "user", "content": " Hi\n"}],
    "system": [{"role": "system", "content": "Be kind. "}, {"role": "user", "content": "Hi"}],
    "turns": [
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": "Two"},
        {"role": "user", "content": "Three"},
    ],
    "picture first": [{"role": "user", "content": [PICTURE, {"type": "text", "text": "What is it?"}]}],
    "picture last": [{"role": "user", "content": [{"type": "text", "text": "What is it?\n"}, PICTURE]}],
    "pictures side by side": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [PICTURE, AGAIN, {"type": "text", "text": "\nWhich?"}]},
        {"role": "assistant", "content": "Both"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "And"}, PICTURE, {"type": "text", "text": "?"}],
        },
    ],
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gemma3(tmp_path_factory.mktemp("gemma3"))


@pytest.fixture(scope="module")
def builder(directory: Path) -> PromptBuilder:
    checkpoint = Checkpoint.open(str(directory))
    return PromptBuilder(checkpoint, Tokenizer.from_checkpoint(checkpoint), load_processing(checkpoint))


def rendered(builder: PromptBuilder, messages: list[dict[str, Any]]) -> RenderedPrompt:
    layout = builder._processing.image_layout(64, 48)
    count = sum(
        part["type"] == "image" for m in messages if isinstance(m["content"], list) for part in m["content"]
    )
    items = [ResolvedMedia("image", media_key("image", bytes([i]), "f"), layout) for i in range(count)]
    return builder.render(messages, items)


def reference_ids(directory: Path, messages: list[dict[str, Any]]) -> list[int]:
    named = {"boi_token": MARKER, "eoi_token": END, "image_token": SOFT}
    tokenizer = PreTrainedTokenizerFast.from_pretrained(directory, extra_special_tokens=named)
    images = Gemma3ImageProcessorPil.from_pretrained(directory)
    processor = Gemma3Processor(images, tokenizer, image_seq_length=TOKENS)
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    pictures = [Image.new("RGB", (64, 48))] * text.count(MARKER)
    inputs = processor(text=[text], images=[pictures] if pictures else None, add_special_tokens=False)
    return list(inputs["input_ids"][0])


@pytest.mark.parametrize("chat", CHATS)
def test_ids_equal_transformers(chat: str, builder: PromptBuilder, directory: Path) -> None:
    prompt = rendered(builder, CHATS[chat])
    assert prompt.sequence.ids == reference_ids(directory, CHATS[chat])
    assert prompt.num_image_tokens == TOKENS * len(prompt.sequence.spans)


def test_spans_are_the_soft_tokens(builder: PromptBuilder, directory: Path) -> None:
    prompt = rendered(builder, CHATS["pictures side by side"])
    soft = Tokenizer.from_checkpoint(Checkpoint.open(str(directory))).control_tokens[SOFT].id
    inside = [i for span in prompt.sequence.spans for i in range(span.start, span.end)]
    assert inside == [i for i, token_id in enumerate(prompt.sequence.ids) if token_id == soft]
    assert len(prompt.sequence.spans) == 3


def test_a_marker_that_a_client_typed_stays_text_without_breaks(builder: PromptBuilder) -> None:
    typed = rendered(builder, [{"role": "user", "content": f"a{MARKER}b"}])
    plain = rendered(builder, [{"role": "user", "content": "ab"}])
    assert not typed.sequence.spans
    text = builder._tokenizer.decode(typed.sequence.ids, skip_special_tokens=False)
    assert f"a{MARKER}b" in text
    assert text.replace(MARKER, "") == builder._tokenizer.decode(
        plain.sequence.ids, skip_special_tokens=False
    )


def test_every_part_of_the_systems_words_is_kept(builder: PromptBuilder) -> None:
    parts = [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "Be brief."}]
    messages = [{"role": "system", "content": parts}, {"role": "user", "content": "Hi"}]
    text = builder._tokenizer.decode(rendered(builder, messages).sequence.ids)
    assert "Be kind." in text
    assert "Be brief." in text


def test_turns_that_do_not_alternate_are_refused_in_the_templates_words(builder: PromptBuilder) -> None:
    with pytest.raises(TemplateError, match="alternate"):
        rendered(builder, [{"role": "user", "content": "One"}, {"role": "user", "content": "Two"}])
