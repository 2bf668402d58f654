"""Does a prompt fit the model's context? Told from its length in characters where that is enough, since text
that can't fit need not be tokenised; and exactly once its tokens are counted."""

from collections.abc import Mapping
from typing import Any

from server.errors import ContextTooLong
from server.validated import Conversation, ModelFacts


def check_context(num_tokens: int, max_model_len: int, param: str) -> None:
    """ContextTooLong, with the counts."""
    if num_tokens >= max_model_len:
        raise _too_long(f"{num_tokens}", max_model_len, param)


CHARS_OF_A_TOKEN = 256
"""At most, on average, where the tokenizer doesn't say: no text but blanks has more."""


def max_characters(facts: ModelFacts, max_model_len: int) -> int:
    """A text of more can't fit."""
    return max_model_len * (facts.max_token_chars or CHARS_OF_A_TOKEN)


def check_length(num_characters: int, facts: ModelFacts, max_model_len: int, param: str) -> None:
    """ContextTooLong if so much text can't fit, however it is tokenised."""
    at_least = -(-num_characters // (facts.max_token_chars or CHARS_OF_A_TOKEN))
    if at_least >= max_model_len:
        raise _too_long(f"at least {at_least}", max_model_len, param)


def _too_long(count: str, max_model_len: int, param: str) -> ContextTooLong:
    return ContextTooLong(
        f"The prompt has {count} tokens, but this server's context is {max_model_len} tokens, "
        "of which at least one must be left for the answer.",
        param=param,
    )


def num_characters(conversation: Conversation) -> int:
    """Of what every template shows: contents, but for blanks around them, and tools. Not of thoughts, which
    many leave out."""
    contents = [message.get("content") or "" for message in conversation.messages]
    texts = [
        [content] if isinstance(content, str) else [p.get("text", "") for p in content]
        for content in contents
    ]
    return sum(len(text.strip()) for parts in texts for text in parts) + _num_characters(conversation.tools)


def _num_characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(key) + _num_characters(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return sum(map(_num_characters, value))
    return 0
