"""GET /health: the process answers. GET /ready: the engine is loaded and makes progress. GET /metrics."""

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from server.errors import Unavailable, error_response
from server.routes.serving import state_of


async def health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    reason = state_of(request).why_not_ready()
    if reason is not None:
        return error_response(Unavailable(f"The server is {reason}.", code="not_ready"))
    return JSONResponse({"status": "ready"})


async def metrics(request: Request) -> Response:
    state = state_of(request)
    stats = state.runtime.engine.stats if state.runtime is not None else None
    page = state.telemetry.page(stats, state.admission.num_waiting)
    return PlainTextResponse(page, media_type="text/plain; version=0.0.4")
