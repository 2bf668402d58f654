"""GET /openapi.json: what this server takes, told by itself."""

from functools import cache

import orjson
from starlette.requests import Request
from starlette.responses import Response

from server.openapi import document


async def openapi(_: Request) -> Response:
    return Response(_document(), media_type="application/json")


@cache
def _document() -> bytes:
    return orjson.dumps(document())
