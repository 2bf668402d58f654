"""Chat answers as JSON: whole, or as the chunks of a stream. Field for field what is published."""

import time
import uuid
from collections.abc import Iterator
from typing import Any

from server.choice import Piece
from server.tools.parser import ToolDelta


class ChatFormat:
    """One response. `include_usage`: chunks carry `usage`, null but in the last."""

    def __init__(self, model: str, with_logprobs: bool, include_usage: bool = False) -> None:
        self._head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}
        self._with_logprobs = with_logprobs
        self._include_usage = include_usage

    def first_chunk(self, index: int) -> dict[str, Any]:
        return self._chunk([_chunk_choice(index, {"role": "assistant", "content": "", "refusal": None})])

    def chunks(self, index: int, piece: Piece) -> Iterator[dict[str, Any]]:
        """One delta each: clients merge two deltas of one call in one chunk wrongly."""
        deltas: list[dict[str, Any]] = []
        if piece.reasoning:
            deltas.append({"reasoning_content": piece.reasoning})
        if piece.content:
            deltas.append({"content": piece.content})
        deltas += [{"tool_calls": [_call_delta(call)]} for call in piece.calls]
        logprobs = self._logprobs(piece) if piece.tokens else None
        for delta in deltas or ([{"content": ""}] if logprobs else []):
            yield self._chunk([_chunk_choice(index, delta, logprobs)])
            logprobs = None
        if piece.finish_reason:
            yield self._chunk([_chunk_choice(index, {}, None, piece.finish_reason)])

    def usage_chunk(self, usage: dict[str, Any]) -> dict[str, Any]:
        return {**self._chunk([]), "usage": usage}

    def whole(self, answers: list["WholeAnswer"], usage: dict[str, Any]) -> dict[str, Any]:
        choices = [
            {
                "index": index,
                "message": answer.message(),
                "logprobs": self._logprobs(answer.piece) if self._with_logprobs else None,
                "finish_reason": answer.piece.finish_reason,
            }
            for index, answer in enumerate(answers)
        ]
        return {
            **self._head,
            "object": "chat.completion",
            "choices": choices,
            "usage": usage,
            "service_tier": "default",
            "system_fingerprint": None,
        }

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        chunk = {
            **self._head,
            "object": "chat.completion.chunk",
            "choices": choices,
            "service_tier": "default",
        }
        return {**chunk, "usage": None} if self._include_usage else chunk

    @staticmethod
    def _logprobs(piece: Piece) -> dict[str, Any]:
        return {"content": [token.chat() for token in piece.tokens], "refusal": None}


class WholeAnswer:
    """The pieces of one choice, joined."""

    def __init__(self) -> None:
        self.piece = Piece()

    def add(self, piece: Piece) -> None:
        self.piece.content += piece.content
        self.piece.reasoning += piece.reasoning
        self.piece.calls += piece.calls
        self.piece.tokens += piece.tokens
        self.piece.finish_reason = piece.finish_reason

    def message(self) -> dict[str, Any]:
        calls: list[dict[str, Any]] = []
        for delta in self.piece.calls:
            if delta.id is not None:
                calls.append(
                    {"id": delta.id, "type": "function", "function": {"name": delta.name, "arguments": ""}}
                )
            calls[delta.number]["function"]["arguments"] += delta.arguments
        message: dict[str, Any] = {
            "role": "assistant",
            "content": self.piece.content if self.piece.content or not calls else None,
            "refusal": None,
            "annotations": [],
        }
        if self.piece.reasoning:
            message["reasoning_content"] = self.piece.reasoning
        if calls:
            message["tool_calls"] = calls
        return message


def _chunk_choice(
    index: int,
    delta: dict[str, Any],
    logprobs: dict[str, Any] | None = None,
    finish_reason: str | None = None,
) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}


def _call_delta(call: ToolDelta) -> dict[str, Any]:
    if call.id is None:
        return {"index": call.number, "function": {"arguments": call.arguments}}
    function = {"name": call.name, "arguments": call.arguments}
    return {"index": call.number, "id": call.id, "type": "function", "function": function}
