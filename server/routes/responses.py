"""POST /v1/responses."""

from collections.abc import AsyncGenerator
from typing import Any

import orjson
from starlette.requests import Request

from server.caller import Caller
from server.errors import as_api_error
from server.generation import answered
from server.responses.answer import Answer
from server.responses.form import ResponseForm, response_usage
from server.responses.items import Event
from server.responses.namespaces import Namespaces
from server.responses.validate import validate_response
from server.routes.serving import caller_of, read_validated
from server.schema.responses import ResponseRequest
from server.stream import PREPARED, EventStream, WholeResponse
from server.validated import ValidatedChat


async def responses(request: Request) -> EventStream | WholeResponse:
    caller = caller_of(request)
    settings = caller.state.settings

    def understand(wire: ResponseRequest) -> tuple[ValidatedChat, ResponseForm, Answer]:
        names = Namespaces(wire.tools or ())
        validated = validate_response(wire, names, caller.runtime.facts, settings.max_media_items)
        return validated, ResponseForm(wire), Answer(names)

    validated, form, answer = await read_validated(request, ResponseRequest, understand)
    job = _Job(caller, validated, form, answer)
    if validated.options.stream:
        return EventStream(job.stream(), settings.send_timeout)
    return WholeResponse(job.whole)


def _sse(event: Event) -> bytes:
    return b"event: " + event["type"].encode() + b"\ndata: " + orjson.dumps(event) + b"\n\n"


class _Job:
    def __init__(self, caller: Caller, request: ValidatedChat, form: ResponseForm, answer: Answer) -> None:
        self._caller = caller
        self._request = request
        self._form = form
        self._answer = answer

    async def whole(self) -> dict[str, Any]:
        async with answered(self._caller, self._request) as (answering, pieces):
            async for _, piece in pieces:
                for _ in self._answer.feed(piece):
                    pass
            return self._form.response(self._answer.status, self._answer.output(), response_usage(answering))

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """A failure after the first event is `response.failed`, the published end of a stream that fails."""
        begun = False
        try:
            async with answered(self._caller, self._request) as (answering, pieces):
                yield PREPARED
                async for _, piece in pieces:
                    if not begun:
                        begun = True
                        yield self._opening()
                    if events := b"".join(
                        _sse(self._form.numbered(event)) for event in self._answer.feed(piece)
                    ):
                        yield events
                status = self._answer.status
                response = self._form.response(status, self._answer.output(), response_usage(answering))
                yield _sse(self._form.lifecycle(status, response))
        except Exception as error:
            if not begun:
                raise
            self._answer.break_off()
            response = self._form.response("failed", self._answer.output(), error=as_api_error(error))
            yield _sse(self._form.lifecycle("failed", response))

    def _opening(self) -> bytes:
        response = self._form.response("in_progress", [])
        return b"".join(_sse(self._form.lifecycle(name, response)) for name in ("created", "in_progress"))
