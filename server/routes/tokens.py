"""POST /tokenize and POST /detokenize: what the model is given, as token ids and back."""

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse

from server import generation
from server.conversation import conversation_of
from server.errors import BadRequest
from server.routes.serving import read, state_of
from server.runtime import Runtime
from server.schema.tokenize import DetokenizeRequest, TokenizeRequest
from server.tools.plan import rendered_tools
from server.validate import check_model


async def tokenize(request: Request) -> JSONResponse:
    runtime = state_of(request).serving()
    wire = await read(request, TokenizeRequest)
    if wire.model is not None:
        check_model(wire.model, runtime.facts)
    ids = await _ids(wire, runtime)
    return JSONResponse(
        {"tokens": ids, "count": len(ids), "max_model_len": runtime.engine.info.max_model_len}
    )


async def _ids(wire: TokenizeRequest, runtime: Runtime) -> list[int]:
    if (wire.prompt is None) == (wire.messages is None):
        raise BadRequest("Give either prompt or messages.", param="prompt")
    if wire.prompt is not None:
        return (await asyncio.to_thread(runtime.prompts.render_text, wire.prompt)).sequence.ids
    tools = rendered_tools(wire.tools)
    conversation = conversation_of(wire.messages or [], tools, wire.chat_template_kwargs, runtime.facts, 0)
    return (await generation.render(runtime, conversation, [], wire.add_generation_prompt)).sequence.ids


async def detokenize(request: Request) -> JSONResponse:
    runtime = state_of(request).serving()
    wire = await read(request, DetokenizeRequest)
    if wire.model is not None:
        check_model(wire.model, runtime.facts)
    for token_id in wire.tokens:
        if not 0 <= token_id < runtime.facts.vocab_size:
            raise BadRequest(f"{token_id} is no token id of this model.", param="tokens")
    text = await asyncio.to_thread(runtime.vocabulary.decode, wire.tokens, False)
    return JSONResponse({"prompt": text})
