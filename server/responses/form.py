"""A response as JSON: the object that echoes its request, the events that tell of it, and its usage."""

import json
import time
import uuid
from typing import Any

import orjson

from server.errors import ApiError, BadRequest
from server.generation import Answering
from server.responses.items import Event
from server.schema.responses import ResponseRequest

MAX_REPEATED_BYTES = 4 << 20
"""Of tools, and of a format: they come back in every response, three times in a stream."""
_PUBLISHED_ERRORS = frozenset({"server_error", "rate_limit_exceeded", "invalid_prompt"})


class ResponseForm:
    """One response. Events get their numbers in the order in which they are asked for."""

    def __init__(self, request: ResponseRequest) -> None:
        """BadRequest for what is too long to be repeated. Takes a while where the request is long."""
        self._id = f"resp_{uuid.uuid4().hex}"
        self._created_at = int(time.time())
        self._echo = _echo(request)
        self._num_events = 0

    def response(
        self,
        status: str,
        output: list[dict[str, Any]],
        usage: dict[str, Any] | None = None,
        error: ApiError | None = None,
    ) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created_at,
            "completed_at": int(time.time()) if status == "completed" else None,
            "status": status,
            "error": {"code": _code(error), "message": error.message} if error else None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "output": output,
            "usage": usage,
            **self._echo,
        }

    def lifecycle(self, name: str, response: dict[str, Any]) -> Event:
        """The event `response.<name>`."""
        return self.numbered({"type": f"response.{name}", "response": response})

    def numbered(self, event: Event) -> Event:
        self._num_events += 1
        return {**event, "sequence_number": self._num_events - 1}


def response_usage(answering: Answering) -> dict[str, Any]:
    prompt, cache = answering.asked.prompt_tokens, answering.cache_tokens
    return {
        "input_tokens": prompt.total,
        "input_tokens_details": {
            "cached_tokens": cache.read,
            "cache_write_tokens": cache.written,
            "text_tokens": prompt.text,
            "image_tokens": prompt.image,
            "audio_tokens": prompt.audio,
        },
        "output_tokens": answering.num_tokens,
        "output_tokens_details": {"reasoning_tokens": answering.num_reasoning_tokens},
        "total_tokens": prompt.total + answering.num_tokens,
    }


def _code(error: ApiError) -> str:
    if error.code in _PUBLISHED_ERRORS:
        return error.code
    return "server_error" if error.status >= 500 else "invalid_prompt"


def _echo(request: ResponseRequest) -> dict[str, Any]:
    """What the request said, defaults filled in, and what holds for every response of this server."""
    text_format = request.text.format if request.text else None
    choice = request.tool_choice
    return {
        "model": request.model,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "max_tool_calls": request.max_tool_calls,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_logprobs": request.top_logprobs,
        "text": {
            "format": _repeated(text_format.model_dump(by_alias=True, exclude_none=True), "text.format")
            if text_format
            else {"type": "text"}
        },
        "tools": _repeated(
            [tool.model_dump(exclude={"output_schema"}) for tool in request.tools or ()], "tools"
        ),
        "tool_choice": choice if isinstance(choice, str) else choice.model_dump() if choice else "auto",
        "parallel_tool_calls": request.parallel_tool_calls,
        "reasoning": {
            "effort": request.reasoning.effort if request.reasoning else None,
            "summary": request.reasoning.summary if request.reasoning else None,
        },
        "metadata": request.metadata or {},
        "user": request.user,
        "safety_identifier": request.safety_identifier,
        "prompt_cache_key": request.prompt_cache_key,
        "prompt_cache_retention": request.prompt_cache_retention,
        "background": False,
        "previous_response_id": None,
        "service_tier": "default",
        "store": False,
        "truncation": "disabled",
    }


def _repeated(value: Any, param: str) -> orjson.Fragment:
    """Written once for all responses. A schema may hold integers of any length, which only Python's own JSON
    can write."""
    try:
        data = orjson.dumps(value)
    except TypeError:
        data = json.dumps(value).encode()
    if len(data) > MAX_REPEATED_BYTES:
        raise BadRequest(f"{param}: longer than {MAX_REPEATED_BYTES} bytes.", param=param)
    return orjson.Fragment(data)
