"""POST /v1/audio/transcriptions."""

from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request

from server.caller import Caller
from server.generation import answered
from server.routes.serving import caller_of, read_upload
from server.schema.transcriptions import TranscriptionRequest
from server.stream import PREPARED, EventStream, WholeResponse, sse
from server.transcription import TranscriptForm, check_takes_audio, validate_transcription
from server.validated import ValidatedChat


async def transcriptions(request: Request) -> EventStream | WholeResponse:
    caller = caller_of(request)
    settings, facts = caller.state.settings, caller.runtime.facts
    check_takes_audio(facts)
    wire = await read_upload(request, TranscriptionRequest)
    validated = validate_transcription(wire, facts, settings.max_media_items)
    form = TranscriptForm(bool(wire.include))
    if wire.stream:
        return EventStream(_stream(caller, validated, form), settings.send_timeout)
    as_text = wire.response_format == "text"
    return WholeResponse(lambda: _whole(caller, validated, form, as_text))


async def _stream(
    caller: Caller, request: ValidatedChat, form: TranscriptForm
) -> AsyncGenerator[bytes, None]:
    async with answered(caller, request) as (answering, pieces):
        yield PREPARED
        async for _, piece in pieces:
            if (event := form.add(piece)) is not None:
                yield sse(event)
        yield sse(form.done(answering))


async def _whole(
    caller: Caller, request: ValidatedChat, form: TranscriptForm, as_text: bool
) -> dict[str, Any] | str:
    async with answered(caller, request) as (answering, pieces):
        async for _, piece in pieces:
            form.add(piece)
        return form.text if as_text else form.whole(answering)
