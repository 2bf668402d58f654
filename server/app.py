"""The application: routes, error bodies and the key check, put together around one `ServerState`."""

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from server import errors
from server.auth import Keys, RequireKey
from server.open_bodies import HoldBodies
from server.origins import AllowOrigins
from server.request_id import RequestId
from server.routes import chat, completions, models, openapi, responses, status, tokens, transcriptions, web
from server.state import ServerState


def create_app(state: ServerState) -> ASGIApp:
    """Deny by default: the key check stands before the routes, so a route that does not exist asks for a
    key too."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.server = state
    errors.install(app)
    app.router.routes.extend(_routes())
    locked: ASGIApp = RequireKey(HoldBodies(app, state.bodies), Keys(state.settings.tenants))
    origins = state.settings.allowed_origins
    return RequestId(AllowOrigins(locked, origins) if origins else locked)


def _routes() -> list[BaseRoute]:
    return [
        Route("/health", status.health),
        Route("/ready", status.ready),
        Route("/metrics", status.metrics),
        Route("/openapi.json", openapi.openapi),
        Route("/v1/models", models.list_models),
        Route("/v1/models/{model:path}", models.get_model),
        Route("/v1/chat/completions", chat.chat_completions, methods=["POST"]),
        Route("/v1/completions", completions.completions, methods=["POST"]),
        Route("/v1/responses", responses.responses, methods=["POST"]),
        Route("/v1/audio/transcriptions", transcriptions.transcriptions, methods=["POST"]),
        Route("/tokenize", tokens.tokenize, methods=["POST"]),
        Route("/detokenize", tokens.detokenize, methods=["POST"]),
        Route("/stats", web.stats),
        Route("/", web.page, middleware=[Middleware(web.WholeFiles)]),
        Mount("/web", web.WebFiles(), middleware=[Middleware(web.WholeFiles)]),
    ]
