"""POST /v1/chat/completions."""

from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request

from server.caller import Caller
from server.chat_format import ChatFormat, WholeAnswer
from server.generation import Answering, answered
from server.routes.serving import caller_of, read_validated
from server.schema.chat import ChatRequest
from server.stream import DONE, PREPARED, EventStream, WholeResponse, sse
from server.usage import usage
from server.validate import validate_chat
from server.validated import ValidatedChat


async def chat_completions(request: Request) -> EventStream | WholeResponse:
    caller = caller_of(request)
    settings = caller.state.settings
    validated = await read_validated(
        request,
        ChatRequest,
        lambda wire: validate_chat(wire, caller.runtime.facts, settings.max_media_items),
    )
    if validated.options.stream:
        return EventStream(_stream(caller, validated), settings.send_timeout)
    return WholeResponse(lambda: _whole(caller, validated))


async def _stream(caller: Caller, request: ValidatedChat) -> AsyncGenerator[bytes, None]:
    options = request.options
    form = ChatFormat(request.model, _wants_logprobs(request), options.include_usage)
    async with answered(caller, request) as (answering, pieces):
        yield PREPARED
        begun = False
        async for index, piece in pieces:
            if not begun:
                begun = True
                yield b"".join(sse(form.first_chunk(choice)) for choice in range(options.num_choices))
            yield b"".join(sse(chunk) for chunk in form.chunks(index, piece))
        if options.include_usage:
            yield sse(form.usage_chunk(_usage(answering)))
        yield DONE


async def _whole(caller: Caller, request: ValidatedChat) -> dict[str, Any]:
    form = ChatFormat(request.model, _wants_logprobs(request))
    answers = [WholeAnswer() for _ in range(request.options.num_choices)]
    async with answered(caller, request) as (answering, pieces):
        async for index, piece in pieces:
            answers[index].add(piece)
        return form.whole(answers, _usage(answering))


def _usage(answering: Answering) -> dict[str, Any]:
    return usage(
        answering.asked.prompt_tokens,
        answering.cache_tokens,
        answering.num_tokens,
        answering.num_reasoning_tokens,
    )


def _wants_logprobs(request: ValidatedChat) -> bool:
    return request.options.sampling.num_top_logprobs is not None
