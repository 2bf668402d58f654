"""GET /v1/models and GET /v1/models/{id}."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from server.routes.serving import state_of
from server.runtime import Runtime
from server.validate import check_model


async def list_models(request: Request) -> JSONResponse:
    runtime = state_of(request).serving()
    return JSONResponse({"object": "list", "data": [_model(name, runtime) for name in runtime.facts.names]})


async def get_model(request: Request) -> JSONResponse:
    runtime = state_of(request).serving()
    name = request.path_params["model"]
    check_model(name, runtime.facts)
    return JSONResponse(_model(name, runtime))


def _model(name: str, runtime: Runtime) -> dict[str, Any]:
    """The last two keys are extensions."""
    return {
        "id": name,
        "object": "model",
        "created": runtime.created,
        "owned_by": "intarsia",
        "max_model_len": runtime.engine.info.max_model_len,
        "media": sorted(runtime.facts.media_kinds),
    }
