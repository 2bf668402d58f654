"""What a request used, in OpenAI's form."""

from typing import Any, NamedTuple


class PromptTokens(NamedTuple):
    """A prompt's tokens by kind. Media tokens are the placeholders that stand for content; text is all the
    rest."""

    text: int
    image: int = 0
    audio: int = 0

    @property
    def total(self) -> int:
        return self.text + self.image + self.audio

    def __add__(self, other: object) -> "PromptTokens":
        if not isinstance(other, PromptTokens):
            return NotImplemented
        return PromptTokens(self.text + other.text, self.image + other.image, self.audio + other.audio)


class CacheTokens(NamedTuple):
    """read: prompt tokens that were not computed for this request. written: those that it added to the
    cache."""

    read: int = 0
    written: int = 0

    def __add__(self, other: object) -> "CacheTokens":
        if not isinstance(other, CacheTokens):
            return NotImplemented
        return CacheTokens(self.read + other.read, self.written + other.written)


def usage(
    prompt: PromptTokens, cache: CacheTokens, num_completion: int, num_reasoning: int = 0
) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt.total,
        "completion_tokens": num_completion,
        "total_tokens": prompt.total + num_completion,
        "prompt_tokens_details": {
            "text_tokens": prompt.text,
            "image_tokens": prompt.image,
            "audio_tokens": prompt.audio,
            "cached_tokens": cache.read,
            "cache_write_tokens": cache.written,
        },
        "completion_tokens_details": {
            "text_tokens": num_completion,
            "reasoning_tokens": num_reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
