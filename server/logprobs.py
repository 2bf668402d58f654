"""Token log-probabilities in OpenAI's form, released together with the text that their tokens make."""

from typing import Any, Protocol

from engine.messages import TokenLogprobs

FLOOR = -9999.0
"""Stands for minus infinity, which JSON can't hold."""


class TokenNames(Protocol):
    def token_bytes(self, token_id: int) -> bytes: ...


class TokenReport:
    """One generated token as a client sees it."""

    __slots__ = ("_logprobs", "_names", "start", "token_id")

    def __init__(self, names: TokenNames, token_id: int, logprobs: TokenLogprobs, start: int) -> None:
        self._names = names
        self._logprobs = logprobs
        self.token_id = token_id
        self.start = start
        """Characters of the answer before this token."""

    def chat(self) -> dict[str, Any]:
        top = [self._entry(token_id, logprob) for token_id, logprob in self._logprobs.top]
        return {**self._entry(self.token_id, self._logprobs.chosen), "top_logprobs": top}

    def text(self) -> str:
        """The token's text; a piece of a character shows as U+FFFD here, and exactly in its bytes."""
        return self._names.token_bytes(self.token_id).decode("utf-8", "replace")

    @property
    def logprob(self) -> float:
        return _shown(self._logprobs.chosen)

    def top(self) -> dict[str, float]:
        """Best first, and always the token itself; of two tokens with the same text the better one."""
        texts: dict[str, float] = {}
        for token_id, logprob in (*self._logprobs.top, (self.token_id, self._logprobs.chosen)):
            text = self._names.token_bytes(token_id).decode("utf-8", "replace")
            texts.setdefault(text, _shown(logprob))
        return texts

    def _entry(self, token_id: int, logprob: float) -> dict[str, Any]:
        data = self._names.token_bytes(token_id)
        return {"token": data.decode("utf-8", "replace"), "logprob": _shown(logprob), "bytes": list(data)}


def _shown(logprob: float) -> float:
    """Adding zero makes a negative zero, which a certain token has, a plain one."""
    return max(logprob, FLOOR) + 0.0
