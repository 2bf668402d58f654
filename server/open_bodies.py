"""Memory for request bodies: one budget over all that are held, from their first byte to their request's end,
fair between tenants.

What is made of a body (its strings, its media) lives about as long and is about as large, so this bounds
it too.
"""

from collections import Counter

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from server.auth import ANYONE
from server.errors import Unavailable


class OpenBodies:
    """A tenant may always hold its share, an nth of the budget where n tenants hold bodies, also where the
    others have taken all of it. So n tenants hold at most 1 + 1/2 + ... + 1/n times the budget."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._held_bytes: Counter[str] = Counter()
        """Of each tenant that holds any."""

    @property
    def used_bytes(self) -> int:
        """Of all bodies held now, also those still arriving."""
        return self._held_bytes.total()

    def grow(self, tenant: str, num_bytes: int) -> None:
        """Unavailable, and nothing changed, if all bodies together would be too large, and the tenant's
        larger than its share."""
        share = self._capacity_bytes // len(self._held_bytes.keys() | {tenant})
        all_too_large = self.used_bytes + num_bytes > self._capacity_bytes
        if all_too_large and self._held_bytes[tenant] + num_bytes > share:
            raise Unavailable("The server holds as many request bodies as it can; try again shortly.")
        self._held_bytes[tenant] += num_bytes

    def release(self, tenant: str, num_bytes: int) -> None:
        self._held_bytes[tenant] -= num_bytes
        if not self._held_bytes[tenant]:
            del self._held_bytes[tenant]


class HeldBody:
    """One request's part of the budget."""

    def __init__(self, bodies: OpenBodies, tenant: str = ANYONE) -> None:
        self._bodies = bodies
        self._tenant = tenant
        self._num_bytes = 0

    def grow(self, num_bytes: int) -> None:
        """As `OpenBodies.grow`."""
        self._bodies.grow(self._tenant, num_bytes)
        self._num_bytes += num_bytes

    def release(self) -> None:
        self._bodies.release(self._tenant, self._num_bytes)
        self._num_bytes = 0


class HoldBodies:
    """Gives every request its part of the budget, and takes it back however the request ends."""

    def __init__(self, app: ASGIApp, bodies: OpenBodies) -> None:
        self._app = app
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope.setdefault("state", {})
        state["body"] = held = HeldBody(self._bodies, state.get("tenant", ANYONE))
        try:
            await self._app(scope, receive, send)
        finally:
            held.release()


def held_body(request: Request) -> HeldBody:
    return request.scope["state"]["body"]
