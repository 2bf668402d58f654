"""From a validated request to its answers: admission, media, prompt, engine. Knows no wire format."""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import numpy as np

from engine.client import RequestError
from engine.messages import Generate, Grammar, MediaItem
from models.processing.base import MediaError, PreparedMedia
from server import structured
from server.auth import namespace
from server.caller import Caller
from server.choice import Choice, Piece, Reading
from server.context import check_context, check_length, max_characters, num_characters
from server.errors import BadRequest, ServerFault
from server.media.item import MediaPart, ResolvedMedia
from server.prompt import PromptError, PromptTooLong, RenderedPrompt
from server.reading import chat_reading
from server.runtime import MediaRequest, Runtime
from server.template import TemplateError
from server.tokenizer import Untokenizable
from server.usage import CacheTokens, PromptTokens
from server.validated import AnswerOptions, Conversation, MediaRef, ValidatedChat

Prepare = Callable[[bytes], Awaitable[PreparedMedia]]
Pieces = AsyncGenerator[tuple[int, Piece], None]


@dataclass(frozen=True)
class Asked:
    """One prompt as the engine gets it, and how its answers are read."""

    prompt: RenderedPrompt
    options: AnswerOptions
    reading: Reading
    namespace: bytes
    arrived: float
    """When it was asked, by the monotonic clock."""
    grammar: Grammar | None = None

    @property
    def prompt_tokens(self) -> PromptTokens:
        return PromptTokens(
            self.prompt.num_text_tokens, self.prompt.num_image_tokens, self.prompt.num_audio_tokens
        )


class Answering:
    """One prompt inside the engine. Iterate `pieces` once; closing it early aborts the request."""

    def __init__(self, caller: Caller, asked: Asked, prepare: Prepare) -> None:
        self._telemetry = caller.state.telemetry
        self._runtime = caller.runtime
        self._prepare = prepare
        self.asked = asked
        self.choices = [
            Choice(caller.runtime.make_decoder(asked.reading.shown_ids), asked.reading)
            for _ in range(asked.options.num_choices)
        ]
        self.num_cached_tokens = 0

    async def pieces(self) -> Pieces:
        """(choice, piece) as they come, each choice ending with a finish reason. RequestError, EngineDead,
        ContextTooLong."""
        telemetry = self._telemetry
        request = _generate(self.asked)
        telemetry.num_prompt_tokens += self.asked.prompt_tokens.total
        last_token_at = [self.asked.arrived] * len(self.choices)
        async with aclosing(self._runtime.engine.generate(request, self._prepare)) as events:  # type: ignore[type-var]
            async for event in events:
                choice = self.choices[event.choice]
                if event.num_cached_tokens >= 0:
                    self.num_cached_tokens = event.num_cached_tokens
                if choice.finished:
                    continue
                now = time.monotonic()
                timed = telemetry.between_tokens_s if choice.num_tokens else telemetry.first_token_s
                timed.observe(now - last_token_at[event.choice])
                last_token_at[event.choice] = now
                before = choice.num_tokens
                piece = choice.push(event)
                telemetry.num_completion_tokens += choice.num_tokens - before
                if choice.finished and not event.finish_reason:  # a stop string: the engine knows no text
                    self._runtime.engine.stop_choice(request.request_id, event.choice)
                if piece:
                    yield event.choice, piece
                if all(choice.finished for choice in self.choices):
                    return
        raise ServerFault("The answer ended before it was complete.")

    @property
    def cache_tokens(self) -> CacheTokens:
        """What is written counts tokens yet to be computed too. The last one always is; where all before it
        was found it may have been there as well, and is not counted."""
        num_computed = self.asked.prompt_tokens.total - self.num_cached_tokens
        return CacheTokens(self.num_cached_tokens, num_computed if num_computed > 1 else 0)

    @property
    def num_tokens(self) -> int:
        return sum(choice.num_tokens for choice in self.choices)

    @property
    def num_reasoning_tokens(self) -> int:
        return sum(choice.num_reasoning_tokens for choice in self.choices)


@asynccontextmanager
async def accepted(caller: Caller, cache_salt: str | None, num_choices: int) -> AsyncIterator[MediaRequest]:
    """Everything that is done for one request happens inside: it is counted, has its place, and may hold
    media."""
    arrived, state = time.monotonic(), caller.state
    async with state.admission.place(caller.tenant, num_choices):
        state.telemetry.queue_s.observe(time.monotonic() - arrived)
        with state.telemetry.accepted():
            salted = namespace(caller.tenant, cache_salt)
            async with caller.runtime.media.request(salted, caller.tenant) as media:
                yield media


@asynccontextmanager
async def answered(caller: Caller, request: ValidatedChat) -> AsyncIterator[tuple[Answering, Pieces]]:
    """A chat and its answer, about to come: whatever is wrong with its grammar, media or prompt has been
    raised."""
    arrived, runtime, options = time.monotonic(), caller.runtime, request.options
    if request.grammar is not None:  # before it has a place, which it would keep from others meanwhile
        tools = request.conversation.tools or ()
        await structured.check(caller.state.grammars, request.grammar, request.grammar_param, tools)
    async with accepted(caller, options.cache_salt, options.num_choices) as media:
        items = await resolve(media, request.conversation.media)
        prompt = await render(runtime, request.conversation, items)
        check_context(len(prompt.sequence), runtime.engine.info.max_model_len, request.conversation.param)
        reading = chat_reading(runtime, request, prompt.sequence.ids)
        salted = namespace(caller.tenant, options.cache_salt)
        asked = Asked(prompt, options, reading, salted, arrived, request.grammar)
        answering = Answering(caller, asked, media.prepare)
        try:
            async with aclosing(answering.pieces()) as pieces:
                yield answering, pieces
        except RequestError as error:
            if error.code == "invalid_grammar":  # the engine doesn't know whose it was
                error.param = request.grammar_param
            raise


async def resolve(media: MediaRequest, refs: tuple[MediaRef, ...]) -> list[ResolvedMedia]:
    """All of a request's media at once; of several faults the first one's place is reported."""

    async def one(ref: MediaRef) -> ResolvedMedia:
        try:
            return await media.resolve(MediaPart(ref.kind, ref.source, ref.format, ref.options, ref.uuid))
        except MediaError as error:
            raise BadRequest(str(error), param=ref.param, code=error.code) from None

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(ref)) for ref in refs]
    except* Exception as errors:
        fault = errors.exceptions[0]
    else:
        return [task.result() for task in tasks]
    raise fault


async def render(
    runtime: Runtime,
    conversation: Conversation,
    items: list[ResolvedMedia],
    add_generation_prompt: bool = True,
    most_characters: int | None = None,
) -> RenderedPrompt:
    """BadRequest where the template refuses the messages. ContextTooLong, without tokenising them, for
    messages that can't fit the context; most_characters: what is taken for it in the context's place."""
    facts, max_model_len = runtime.facts, runtime.engine.info.max_model_len

    def render_in_thread() -> RenderedPrompt:
        if most_characters is None:
            check_length(num_characters(conversation), facts, max_model_len, conversation.param)
        return runtime.prompts.render(
            conversation.messages,
            items,
            tools=conversation.tools,
            template_kwargs=conversation.template_kwargs,
            add_generation_prompt=add_generation_prompt,
            max_characters=most_characters or max_characters(facts, max_model_len),
        )

    try:
        return await asyncio.to_thread(render_in_thread)
    except PromptTooLong as error:
        if most_characters is None:
            check_length(error.num_characters, facts, max_model_len, conversation.param)
        raise BadRequest(
            f"The prompt is longer than {most_characters} characters.", param=conversation.param
        ) from None
    except (PromptError, TemplateError, Untokenizable) as error:
        raise BadRequest(str(error), param=conversation.param) from None


def _generate(asked: Asked) -> Generate:
    sequence = asked.prompt.sequence
    media: dict[bytes, MediaItem] = {}
    for item in asked.prompt.media:
        media.setdefault(item.key, MediaItem(item.key, item.kind, item.layout))
    positions = {key: index for index, key in enumerate(media)}
    return Generate(
        request_id=uuid.uuid4().hex,
        ids=np.asarray(sequence.ids, dtype="<i4").tobytes(),
        namespace=asked.namespace,
        sampling=asked.options.sampling,
        num_choices=asked.options.num_choices,
        spans=tuple((span.start, span.end, positions[span.key], span.offset) for span in sequence.spans),
        media=tuple(media.values()),
        grammar=asked.grammar,
    )
