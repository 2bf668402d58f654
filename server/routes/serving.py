"""What handlers share: the server's state, who is asking, and the body as a wire type."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from starlette.requests import Request

from server.auth import ANYONE
from server.body import read_json
from server.caller import Caller
from server.form import read_form
from server.schema.wire import Wire, parse
from server.state import ServerState

logger = logging.getLogger("intarsia")

WireT = TypeVar("WireT", bound=Wire)
Validated = TypeVar("Validated")


def state_of(request: Request) -> ServerState:
    return request.app.state.server


def caller_of(request: Request) -> Caller:
    """Unavailable, before its body is read, where it can't be served or find a place in the queue."""
    state = state_of(request)
    runtime = state.serving()
    tenant = request.scope.get("state", {}).get("tenant", ANYONE)
    state.admission.check_queue(tenant)
    return Caller(state, runtime, tenant)


async def read(request: Request, model: type[WireT]) -> WireT:
    """BadRequest and its relatives for a body that is too large, late, not JSON, or not a `model`."""
    return await read_validated(request, model, lambda wire: wire)


async def read_validated(
    request: Request, model: type[WireT], validate: Callable[[WireT], Validated]
) -> Validated:
    """As `read`, then `validate`: beside the event loop, both of them, where the body is long."""
    settings = state_of(request).settings

    def understand(data: Any) -> tuple[Validated, list[str]]:
        wire, ignored = parse(model, data, settings.allow_unknown_fields)
        return validate(wire), ignored

    validated, ignored = await read_json(request, settings.max_body_bytes, settings.body_timeout, understand)
    _warn_of(ignored)
    return validated


async def read_upload(request: Request, model: type[WireT]) -> WireT:
    """As `read`, from a multipart form."""
    settings = state_of(request).settings
    data = await read_form(request, settings.max_body_bytes, settings.body_timeout)
    wire, ignored = parse(model, data, settings.allow_unknown_fields)
    _warn_of(ignored)
    return wire


def _warn_of(ignored: list[str]) -> None:
    if ignored:
        names = ", ".join(ascii(name[:50]) for name in ignored[:10])  # one could write lines of its own
        logger.warning("ignored unknown request fields: %s", names)
