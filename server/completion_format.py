"""Text completions as JSON: whole, or as the chunks of a stream."""

import time
import uuid
from typing import Any

from server.choice import Piece
from server.logprobs import TokenReport


class CompletionFormat:
    def __init__(self, model: str, with_logprobs: bool, include_usage: bool = False) -> None:
        self._head = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": model,
        }
        self._with_logprobs = with_logprobs
        self._include_usage = include_usage

    def chunk(self, index: int, piece: Piece) -> dict[str, Any]:
        chunk = {**self._head, "choices": [self._choice(index, piece)]}
        return {**chunk, "usage": None} if self._include_usage else chunk

    def usage_chunk(self, usage: dict[str, Any]) -> dict[str, Any]:
        return {**self._head, "choices": [], "usage": usage}

    def whole(self, pieces: list[Piece], usage: dict[str, Any]) -> dict[str, Any]:
        choices = [self._choice(index, piece) for index, piece in enumerate(pieces)]
        return {**self._head, "choices": choices, "usage": usage}

    def _choice(self, index: int, piece: Piece) -> dict[str, Any]:
        logprobs = _logprobs(piece.tokens) if self._with_logprobs else None
        return {
            "index": index,
            "text": piece.content,
            "logprobs": logprobs,
            "finish_reason": piece.finish_reason or None,
        }


def _logprobs(tokens: list[TokenReport]) -> dict[str, Any]:
    return {
        "tokens": [token.text() for token in tokens],
        "token_logprobs": [token.logprob for token in tokens],
        "top_logprobs": [token.top() for token in tokens],
        "text_offset": [token.start for token in tokens],
    }
