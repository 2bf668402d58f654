"""POST /v1/completions: raw prompts, one or several, all answered at once."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from time import monotonic
from typing import Any

from starlette.requests import Request

from server.auth import namespace
from server.caller import Caller
from server.chat_format import WholeAnswer
from server.completion_format import CompletionFormat
from server.context import check_context, check_length
from server.errors import BadRequest
from server.generation import Answering, Asked, Prepare, accepted
from server.prompt import PromptError, RenderedPrompt
from server.reading import plain_reading
from server.routes.serving import caller_of, read
from server.runtime import MediaRequest
from server.schema.completions import CompletionRequest
from server.stream import DONE, PREPARED, EventStream, WholeResponse, sse
from server.together import pieces_of
from server.tokenizer import Untokenizable
from server.usage import CacheTokens, PromptTokens, usage
from server.validate import answer_options, check_model
from server.validated import AnswerOptions

MAX_ANSWERS = 128


async def completions(request: Request) -> EventStream | WholeResponse:
    caller = caller_of(request)
    facts = caller.runtime.facts
    wire = await read(request, CompletionRequest)
    check_model(wire.model, facts)
    options = answer_options(wire, facts, wire.max_tokens, wire.logprobs)
    job = _Job(caller, wire.model, _prompts(wire), options)
    if job.num_answers > MAX_ANSWERS:
        raise BadRequest(f"At most {MAX_ANSWERS} answers: prompts times n.", param="n")
    if options.stream:
        return EventStream(job.stream(), caller.state.settings.send_timeout)
    return WholeResponse(job.whole)


def _prompts(wire: CompletionRequest) -> Sequence[str | list[int]]:
    prompt = wire.prompt
    if isinstance(prompt, str):
        return [prompt]
    if not prompt:
        raise BadRequest("prompt is empty.", param="prompt")
    return [prompt] if isinstance(prompt[0], int) else prompt  # type: ignore[return-value]


class _Job:
    def __init__(
        self, caller: Caller, model: str, prompts: Sequence[str | list[int]], options: AnswerOptions
    ) -> None:
        self._caller = caller
        self._arrived = monotonic()
        self._prompts = prompts
        self._options = options
        self._form = CompletionFormat(
            model, options.sampling.num_top_logprobs is not None, options.include_usage
        )

    @property
    def num_answers(self) -> int:
        return len(self._prompts) * self._options.num_choices

    async def stream(self) -> AsyncGenerator[bytes, None]:
        async with self._accepted() as media:
            answerings = await self._answerings(media.prepare)
            yield PREPARED
            async with aclosing(pieces_of(answerings)) as pieces:
                async for index, piece in pieces:
                    yield sse(self._form.chunk(index, piece))
            if self._options.include_usage:
                yield sse(self._form.usage_chunk(_usage(answerings)))
            yield DONE

    async def whole(self) -> dict[str, Any]:
        async with self._accepted() as media:
            answerings = await self._answerings(media.prepare)
            answers = [WholeAnswer() for _ in range(self.num_answers)]
            async with aclosing(pieces_of(answerings)) as pieces:
                async for index, piece in pieces:
                    answers[index].add(piece)
            return self._form.whole([answer.piece for answer in answers], _usage(answerings))

    def _accepted(self) -> AbstractAsyncContextManager[MediaRequest]:
        return accepted(self._caller, self._options.cache_salt, self.num_answers)

    async def _answerings(self, prepare: Prepare) -> list[Answering]:
        rendered = [await asyncio.to_thread(self._render, prompt) for prompt in self._prompts]
        reading = plain_reading(self._caller.runtime, self._options)
        salted = namespace(self._caller.tenant, self._options.cache_salt)
        asked = [Asked(prompt, self._options, reading, salted, self._arrived) for prompt in rendered]
        return [Answering(self._caller, one, prepare) for one in asked]

    def _render(self, prompt: str | list[int]) -> RenderedPrompt:
        runtime = self._caller.runtime
        prompts, max_model_len = runtime.prompts, runtime.engine.info.max_model_len
        if isinstance(prompt, str):
            check_length(len(prompt), runtime.facts, max_model_len, "prompt")
        try:
            rendered = prompts.render_text(prompt) if isinstance(prompt, str) else prompts.render_ids(prompt)
        except (PromptError, Untokenizable) as error:
            raise BadRequest(str(error), param="prompt") from None
        if not len(rendered.sequence):
            raise BadRequest("The prompt is empty.", param="prompt")
        check_context(len(rendered.sequence), max_model_len, "prompt")
        return rendered


def _usage(answerings: list[Answering]) -> dict[str, Any]:
    prompt, cache = PromptTokens(0), CacheTokens()
    for answering in answerings:
        prompt += answering.asked.prompt_tokens
        cache += answering.cache_tokens
    return usage(prompt, cache, sum(answering.num_tokens for answering in answerings))
