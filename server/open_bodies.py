"""Memory for request bodies: one budget over all that are held, from their first byte to their request's end.

What is made of a body (its strings, its media) lives about as long and is about as large, so this bounds
it too.
"""

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from server.errors import Unavailable


class OpenBodies:
    """used_bytes: of all bodies held now, also those still arriving."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self.used_bytes = 0

    def grow(self, num_bytes: int) -> None:
        """Unavailable, and nothing changed, if all bodies together would be too large."""
        if self.used_bytes + num_bytes > self._capacity_bytes:
            raise Unavailable("The server holds as many request bodies as it can; try again shortly.")
        self.used_bytes += num_bytes


class HeldBody:
    """One request's share of the budget."""

    def __init__(self, bodies: OpenBodies) -> None:
        self._bodies = bodies
        self._num_bytes = 0

    def grow(self, num_bytes: int) -> None:
        """As `OpenBodies.grow`."""
        self._bodies.grow(num_bytes)
        self._num_bytes += num_bytes

    def release(self) -> None:
        self._bodies.used_bytes -= self._num_bytes
        self._num_bytes = 0


class HoldBodies:
    """Gives every request its share of the budget, and takes it back however the request ends."""

    def __init__(self, app: ASGIApp, bodies: OpenBodies) -> None:
        self._app = app
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        held = HeldBody(self._bodies)
        scope.setdefault("state", {})["body"] = held
        try:
            await self._app(scope, receive, send)
        finally:
            held.release()


def held_body(request: Request) -> HeldBody:
    return request.scope["state"]["body"]
