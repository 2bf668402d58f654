"""Which web pages of other origins may read answers: none, unless the settings name them (CORS).

The key is no cookie: a page has to send it with each request, so no credentials of the browser's are allowed.
"""

from collections.abc import Iterable, Mapping

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from server.errors import BadRequest, error_response

METHODS = ("GET", "HEAD", "POST")
EXPOSED = ("x-request-id", "retry-after")
"""What a page may read beside the headers that it always may."""
MAX_AGE_S = 600
"""How long a browser remembers what it may ask."""


class AllowOrigins(CORSMiddleware):
    """ASGI middleware, around the key check: what a browser asks beforehand carries no key, and a page must
    be able to read why it is refused."""

    def __init__(self, app: ASGIApp, origins: Iterable[str]) -> None:
        super().__init__(
            app,
            allow_origins=tuple(origins),
            allow_methods=METHODS,
            allow_headers=("*",),
            expose_headers=EXPOSED,
            allow_private_network=True,
            max_age=MAX_AGE_S,
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        response = super().preflight_response(request_headers)
        if response.status_code == 200:
            return response
        return _with_headers_of(response, error_response(BadRequest(f"{bytes(response.body).decode()}.")))


def _with_headers_of(response: Response, refused: Response) -> Response:
    for name, value in response.headers.items():
        if name not in refused.headers:
            refused.headers[name] = value
    return refused


def headers_for(origins: Iterable[str], request: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    """For an answer that is made before there is a request for the middleware to see. request: as many of its
    headers as were read."""
    allowed = frozenset(origins)
    origin = next((value.decode("latin-1") for name, value in request if name == b"origin"), None)
    if origin is None or not allowed & {"*", origin}:
        return {}
    return {
        "access-control-allow-origin": "*" if "*" in allowed else origin,
        "access-control-expose-headers": ", ".join(EXPOSED),
        "vary": "Origin",
    }
