"""Does a prompt fit the model's context? Told from its length in characters where that is enough, since text
that can't fit need not be tokenised; and exactly once its tokens are counted."""

from collections.abc import Mapping
from typing import Any

from server.errors import ContextTooLong
from server.validated import ModelFacts


def check_context(num_tokens: int, max_model_len: int, param: str) -> None:
    """ContextTooLong, with the counts."""
    if num_tokens >= max_model_len:
        raise _too_long(f"{num_tokens}", max_model_len, param)


def check_length(text: Any, facts: ModelFacts, max_model_len: int, param: str) -> None:
    """ContextTooLong if the strings in `text` (plain JSON data) can't fit, however they are tokenised."""
    if not facts.max_token_chars:
        return
    at_least = -(-_num_characters(text) // facts.max_token_chars)
    if at_least >= max_model_len:
        raise _too_long(f"at least {at_least}", max_model_len, param)


def _too_long(count: str, max_model_len: int, param: str) -> ContextTooLong:
    return ContextTooLong(
        f"The prompt has {count} tokens, but this server's context is {max_model_len} tokens, "
        "of which at least one must be left for the answer.",
        param=param,
    )


def _num_characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(key) + _num_characters(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return sum(map(_num_characters, value))
    return 0
