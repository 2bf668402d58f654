"""Who is asking. Deny by default: every route asks for a key unless it is listed as public here.

Pure ASGI, outermost but for the request's id, so that not even an unknown route answers without a key.
"""

import hashlib
import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

from server.errors import Unauthorized, error_response

PUBLIC_PATHS = frozenset({"/", "/health", "/ready"})
PUBLIC_PREFIX = "/web/"
"""The static files of the web page; it asks its user for a key and sends it like any other client."""

ANYONE = "anyone"
"""The one tenant of a server without keys."""


class Keys:
    """API keys and their tenants. Lookup takes the same time for every wrong key."""

    def __init__(self, tenants: tuple[tuple[str, str], ...]) -> None:
        self._tenants = tuple((tenant, _digest(key.encode())) for tenant, key in tenants)

    def tenant(self, authorization: list[bytes]) -> str | None:
        """The tenant behind the request's Authorization headers; None if there isn't exactly one good one."""
        if not self._tenants:
            return ANYONE
        header = authorization[0] if len(authorization) == 1 else b""
        # In any case, and any number of blanks after it: RFC 9110, 11.1 and 11.4.
        scheme, _, key = header.partition(b" ")
        key = key.strip(b" ")
        if scheme.lower() != b"bearer" or not key:
            return None
        digest = _digest(key)
        found: str | None = None
        for tenant, expected in self._tenants:
            if hmac.compare_digest(digest, expected):
                found = tenant
        return found


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def namespace(tenant: str, cache_salt: str | None) -> bytes:
    """What a tenant's cache entries are filed under; the salt can narrow it, never leave it."""
    salt = b"" if cache_salt is None else hashlib.sha256(b"salt" + cache_salt.encode()).digest()
    return hashlib.sha256(hashlib.sha256(b"tenant" + tenant.encode()).digest() + salt).digest()


class RequireKey:
    """ASGI middleware: puts `tenant` into the request's state, or answers 401."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_public(scope["path"]):
            await self._app(scope, receive, send)
            return
        tenant = self._keys.tenant([value for name, value in scope["headers"] if name == b"authorization"])
        if tenant is None:
            await error_response(
                Unauthorized("Missing or wrong API key: send `Authorization: Bearer <key>`.")
            )(scope, receive, send)
            return
        scope.setdefault("state", {})["tenant"] = tenant
        await self._app(scope, receive, send)


def is_public(path: str) -> bool:
    return path in PUBLIC_PATHS or (path.startswith(PUBLIC_PREFIX) and ".." not in path)
