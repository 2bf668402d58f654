"""Every error that a client can see, as one tree, and the one place that writes an error body.

    ApiError
    ├── BadRequest            400  what was asked can't be done; `param` says where
    │   └── ContextTooLong    400  prompt does not fit the model's context
    ├── Unauthorized          401  no key, or not one of ours
    ├── NotFound              404  route or model
    ├── MethodNotAllowed      405
    ├── RequestTimeout        408  the body did not arrive in time
    ├── PayloadTooLarge       413
    ├── UnsupportedMedia      415  the body's content type
    ├── Unavailable           503  loading, draining, full or dead; always with Retry-After
    └── ServerFault           500  ours; says nothing of the inside

A message never holds internals: a path, an address, a class name or a traceback.
"""

import logging
import re
from typing import ClassVar

import orjson
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from engine.client import EngineDead, RequestError

logger = logging.getLogger("intarsia")

RETRY_AFTER_S = 5
MAX_MESSAGE_CHARS, MAX_PARAM_CHARS = 1000, 200
"""Of what the client sent, an error repeats no more than fits in here."""


def _bounded(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


class ApiError(Exception):
    """A refusal in the client's terms. Headers are added to the response."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    default_code: ClassVar[str | None] = None

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = _bounded(message, MAX_MESSAGE_CHARS)
        self.param = None if param is None else _bounded(param, MAX_PARAM_CHARS)
        self.code = code or self.default_code
        self.headers: dict[str, str] = {}

    def body(self) -> bytes:
        """OpenAI's error object, all four keys."""
        fields = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return orjson.dumps({"error": fields})


class BadRequest(ApiError):
    status = 400
    type = "invalid_request_error"
    default_code = "invalid_value"


class ContextTooLong(BadRequest):
    default_code = "context_length_exceeded"


class Unauthorized(BadRequest):
    status = 401
    default_code = "invalid_api_key"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.headers["www-authenticate"] = "Bearer"


class NotFound(BadRequest):
    status = 404
    default_code = "not_found"


class MethodNotAllowed(BadRequest):
    status = 405
    default_code = "method_not_allowed"


class RequestTimeout(BadRequest):
    status = 408
    default_code = "request_timeout"


class PayloadTooLarge(BadRequest):
    status = 413
    default_code = "request_too_large"


class UnsupportedMedia(BadRequest):
    status = 415
    default_code = "unsupported_content_type"


class Unavailable(ApiError):
    status = 503
    default_code = "server_is_overloaded"

    def __init__(self, message: str, *, code: str | None = None, retry_after_s: int = RETRY_AFTER_S) -> None:
        super().__init__(message, code=code)
        self.headers["retry-after"] = str(retry_after_s)


class ServerFault(ApiError):
    default_code = "server_error"


def from_engine(error: RequestError | EngineDead) -> ApiError:
    """The engine's refusal in the client's terms. Codes as in engine.messages.RequestFailed."""
    if isinstance(error, EngineDead):
        return Unavailable("The model was stopped; try again shortly.", code="engine_unavailable")
    if error.code == "internal":
        return ServerFault("The server failed while it worked on this request.")
    if error.code == "overloaded":
        return Unavailable(_without_internals(str(error)))
    return BadRequest(_without_internals(str(error)), param=error.param, code=error.code)


def _without_internals(message: str) -> str:
    return re.sub(r"0x[0-9a-fA-F]{6,}", "?", message)


def as_api_error(error: BaseException) -> ApiError:
    """Any exception as one that may be shown; what is not foreseen is logged, and shown as our fault only."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, RequestError | EngineDead):
        return from_engine(error)
    logger.error("unexpected failure", exc_info=error)
    return ServerFault("The server failed while it worked on this request.")


def error_response(error: ApiError) -> Response:
    return Response(error.body(), error.status, error.headers, "application/json")


def _framework_error(error: HTTPException, request: Request) -> ApiError:
    if error.status_code == 404:
        return NotFound(f"No such route: {request.method} {request.url.path[:200]}")
    if error.status_code == 405:
        refused = MethodNotAllowed(f"{request.method} is not allowed here.")
        refused.headers.update(error.headers or {})
        return refused
    return (
        BadRequest("The request could not be understood.")
        if error.status_code < 500
        else ServerFault("Failed.")
    )


def install(app: FastAPI) -> None:
    """Replace every default error body of the framework."""

    async def on_framework_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return error_response(_framework_error(error, request))

    async def on_error(_: Request, error: Exception) -> Response:
        return error_response(as_api_error(error))

    app.add_exception_handler(HTTPException, on_framework_error)
    for kind in (ApiError, RequestError, EngineDead, Exception):
        app.add_exception_handler(kind, on_error)
