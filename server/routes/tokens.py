"""POST /tokenize and POST /detokenize: what the model is given, as token ids and back."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.requests import Request

from server import generation
from server.caller import Caller
from server.conversation import conversation_of
from server.errors import BadRequest
from server.prompt import PromptError
from server.routes.serving import caller_of, read
from server.runtime import Runtime
from server.schema.tokenize import MAX_CHARACTERS, DetokenizeRequest, TokenizeRequest
from server.stream import WholeResponse
from server.tokenizer import Untokenizable
from server.tools.plan import rendered_tools
from server.validate import check_model

Work = Callable[[], Coroutine[Any, Any, dict[str, Any]]]


async def tokenize(request: Request) -> WholeResponse:
    caller = caller_of(request)
    runtime = caller.runtime
    wire = await read(request, TokenizeRequest)
    if wire.model is not None:
        check_model(wire.model, runtime.facts)

    async def work() -> dict[str, Any]:
        ids = await _ids(wire, runtime)
        return {"tokens": ids, "count": len(ids), "max_model_len": runtime.engine.info.max_model_len}

    return _in_place(caller, work)


async def _ids(wire: TokenizeRequest, runtime: Runtime) -> list[int]:
    if (wire.prompt is None) == (wire.messages is None):
        raise BadRequest("Give either prompt or messages.", param="prompt")
    if wire.prompt is not None:
        try:
            rendered = await asyncio.to_thread(runtime.prompts.render_text, wire.prompt)
        except (PromptError, Untokenizable) as error:
            raise BadRequest(str(error), param="prompt") from None
        return rendered.sequence.ids
    tools = rendered_tools(wire.tools)
    conversation = conversation_of(wire.messages or [], tools, wire.chat_template_kwargs, runtime.facts, 0)
    rendered = await generation.render(runtime, conversation, [], wire.add_generation_prompt, MAX_CHARACTERS)
    return rendered.sequence.ids


async def detokenize(request: Request) -> WholeResponse:
    caller = caller_of(request)
    runtime = caller.runtime
    wire = await read(request, DetokenizeRequest)
    if wire.model is not None:
        check_model(wire.model, runtime.facts)
    if wire.tokens and not 0 <= min(wire.tokens) <= max(wire.tokens) < runtime.facts.vocab_size:
        raise BadRequest(f"Token ids are 0 to {runtime.facts.vocab_size - 1}.", param="tokens")

    async def work() -> dict[str, Any]:
        return {"prompt": await asyncio.to_thread(runtime.vocabulary.decode, wire.tokens, False)}

    return _in_place(caller, work)


def _in_place(caller: Caller, work: Work) -> WholeResponse:
    """Waits for its turn like an answer: it takes the threads that prompts of answers are made in."""

    async def placed() -> dict[str, Any]:
        async with caller.state.admission.place(caller.tenant, 1):
            return await work()

    return WholeResponse(placed)
