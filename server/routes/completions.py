"""POST /v1/completions: raw prompts, one or several, all answered at once."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

from starlette.requests import Request

from server.auth import namespace
from server.chat_format import WholeAnswer
from server.completion_format import CompletionFormat
from server.context import check_context, check_length
from server.errors import BadRequest
from server.generation import Answering, Asked, Prepare, accepted
from server.prompt import PromptError, RenderedPrompt
from server.reading import plain_reading
from server.routes.serving import read, state_of, tenant_of
from server.runtime import MediaRequest, Runtime
from server.schema.completions import CompletionRequest
from server.state import ServerState
from server.stream import DONE, PREPARED, EventStream, WholeResponse, sse
from server.together import pieces_of
from server.usage import CacheTokens, PromptTokens, usage
from server.validate import answer_options, check_model
from server.validated import AnswerOptions

MAX_ANSWERS = 128


async def completions(request: Request) -> EventStream | WholeResponse:
    state = state_of(request)
    runtime = state.serving()
    state.admission.check_queue()
    wire = await read(request, CompletionRequest)
    check_model(wire.model, runtime.facts)
    options = answer_options(wire, runtime.facts, wire.max_tokens, wire.logprobs)
    job = _Job(state, runtime, tenant_of(request), wire.model, _prompts(wire), options)
    if job.num_answers > MAX_ANSWERS:
        raise BadRequest(f"At most {MAX_ANSWERS} answers: prompts times n.", param="n")
    return (
        EventStream(job.stream(), state.settings.send_timeout) if options.stream else WholeResponse(job.whole)
    )


def _prompts(wire: CompletionRequest) -> Sequence[str | list[int]]:
    prompt = wire.prompt
    if isinstance(prompt, str):
        return [prompt]
    if not prompt:
        raise BadRequest("prompt is empty.", param="prompt")
    return [prompt] if isinstance(prompt[0], int) else prompt  # type: ignore[return-value]


class _Job:
    def __init__(
        self,
        state: ServerState,
        runtime: Runtime,
        tenant: str,
        model: str,
        prompts: Sequence[str | list[int]],
        options: AnswerOptions,
    ) -> None:
        self._state = state
        self._runtime = runtime
        self._tenant = tenant
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
        return accepted(self._state, self._runtime, self._tenant, self._options.cache_salt, self.num_answers)

    async def _answerings(self, prepare: Prepare) -> list[Answering]:
        rendered = [await asyncio.to_thread(self._render, prompt) for prompt in self._prompts]
        reading = plain_reading(self._runtime, self._options)
        salted = namespace(self._tenant, self._options.cache_salt)
        asked = [Asked(prompt, self._options, reading, salted) for prompt in rendered]
        return [Answering(self._state, self._runtime, one, prepare) for one in asked]

    def _render(self, prompt: str | list[int]) -> RenderedPrompt:
        prompts, max_model_len = self._runtime.prompts, self._runtime.engine.info.max_model_len
        if isinstance(prompt, str):
            check_length(len(prompt), self._runtime.facts, max_model_len, "prompt")
        try:
            rendered = prompts.render_text(prompt) if isinstance(prompt, str) else prompts.render_ids(prompt)
        except PromptError as error:
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
