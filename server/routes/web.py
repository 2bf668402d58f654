"""The page at `/`, its files under `/web/`, and GET /stats, from which it draws the cache.

The page is public and holds nothing secret; what it asks for goes through the API like anyone's requests.
"""

from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from server.routes.serving import state_of

WEB = Path(__file__).parent.with_name("web")
"""All the files of the page; none is made by a build."""

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob: data:; media-src blob: data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "permissions-policy": "camera=(self), microphone=(self)",
    "cache-control": "no-cache",
    "accept-ranges": "none",
}


async def page(_: Request) -> Response:
    return FileResponse(WEB / "index.html", headers=_HEADERS)


class WholeFiles:
    """ASGI middleware: files are small and sent whole. A `Range` may be passed over (RFC 9110, 14.2), and so
    none can be wrong."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(name, value) for name, value in scope["headers"] if name != b"range"]
        await self._app({**scope, "headers": headers}, receive, send)


class WebFiles(StaticFiles):
    def __init__(self) -> None:
        super().__init__(directory=WEB)

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response


async def stats(request: Request) -> JSONResponse:
    """The engine's gauges and counters, and the sizes that they fill."""
    engine = state_of(request).serving().engine
    sizes: dict[str, Any] = {
        "block_size": engine.info.block_size,
        "encoder_cache_bytes": engine.info.encoder_cache_bytes,
    }
    counts = msgspec.to_builtins(engine.stats)
    del counts["type"]
    return JSONResponse(counts | sizes)
