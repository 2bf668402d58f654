"""POST /v1/audio/transcriptions."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request

from server import generation
from server.routes.serving import read_upload, state_of, tenant_of
from server.runtime import Runtime
from server.schema.transcriptions import TranscriptionRequest
from server.state import ServerState
from server.stream import PREPARED, EventStream, WholeResponse, sse
from server.transcription import TranscriptForm, check_takes_audio, validate_transcription
from server.validated import ValidatedChat


async def transcriptions(request: Request) -> EventStream | WholeResponse:
    state = state_of(request)
    runtime = state.serving()
    check_takes_audio(runtime.facts)
    state.admission.check_queue()
    wire = await read_upload(request, TranscriptionRequest)
    validated = validate_transcription(wire, runtime.facts, state.settings.max_media_items)
    form = TranscriptForm(bool(wire.include))
    tenant = tenant_of(request)
    if wire.stream:
        return EventStream(_stream(state, runtime, tenant, validated, form), state.settings.send_timeout)
    as_text = wire.response_format == "text"
    return WholeResponse(lambda: _whole(state, runtime, tenant, validated, form, as_text))


async def _stream(
    state: ServerState, runtime: Runtime, tenant: str, request: ValidatedChat, form: TranscriptForm
) -> AsyncGenerator[bytes, None]:
    async with (
        generation.chat(state, runtime, tenant, request) as answering,
        aclosing(answering.pieces()) as pieces,
    ):
        yield PREPARED
        async for _, piece in pieces:
            if (event := form.add(piece)) is not None:
                yield sse(event)
        yield sse(form.done(answering))


async def _whole(
    state: ServerState,
    runtime: Runtime,
    tenant: str,
    request: ValidatedChat,
    form: TranscriptForm,
    as_text: bool,
) -> dict[str, Any] | str:
    async with (
        generation.chat(state, runtime, tenant, request) as answering,
        aclosing(answering.pieces()) as pieces,
    ):
        async for _, piece in pieces:
            form.add(piece)
        return form.text if as_text else form.whole(answering)
