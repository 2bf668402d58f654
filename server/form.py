"""A multipart form: bounded while it arrives, then its fields and its file, as the wire types take them.

Knows nothing of what the fields mean. Nothing is written to disk.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from server.body import PARSE_INLINE_BYTES, check_content_type, read_body
from server.errors import BadRequest
from server.lane import in_lane

MAX_FIELDS = 64
MAX_FIELD_BYTES = 64 << 10
_SLICE_BYTES = 1 << 20
"""Parsed at once: in between other threads may run."""


async def read_form(request: Request, max_bytes: int, timeout_s: float) -> dict[str, Any]:
    """Text fields as strings, `name[]` as lists of them, a file as bytes; an empty text field is absent.

    PayloadTooLarge before it is buffered; BadRequest for what is no form.
    """
    check_content_type(request, "multipart/form-data")
    body = await read_body(request, max_bytes, timeout_s)
    if len(body) <= PARSE_INLINE_BYTES:
        return await _parsed(request, body)
    return await in_lane(len(body), lambda: _fields_of(request, body))


def _fields_of(request: Request, body: bytearray) -> dict[str, Any]:
    """Beside the event loop, on one of its own."""
    return asyncio.run(_parsed(request, body))


async def _parsed(request: Request, body: bytearray) -> dict[str, Any]:
    parser = _Parser(
        request.headers, _slices(body), max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES
    )
    parser.spool_max_size = len(body) + 1
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise _invalid(error.message) from None
    except ValueError:
        raise _invalid("it can't be parsed") from None
    try:
        return await _fields(form)
    finally:
        await form.close()


class _Parser(MultiPartParser):
    """Text that is not UTF-8 would be taken for Latin-1: here it is refused."""

    def on_part_end(self) -> None:
        part = self._current_part
        if part.file is None:
            try:
                part.data.decode()
            except UnicodeDecodeError:
                name = part.field_name.partition("[")[0][:100]
                raise BadRequest(f"{name}: not UTF-8.", param=name) from None
        super().on_part_end()


async def _slices(body: bytearray) -> AsyncGenerator[bytes, None]:
    for start in range(0, len(body), _SLICE_BYTES):
        yield bytes(body[start : start + _SLICE_BYTES])


async def _fields(form: FormData) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for full_name, value in form.multi_items():
        name, bracket, _ = full_name.partition("[")
        content = await value.read() if isinstance(value, UploadFile) else value
        if content == "":
            continue
        known = fields.get(name)
        if known is not None and not (bracket and isinstance(known, list)):
            raise BadRequest(f"{name[:100]}: given twice.", param=name[:100])
        fields[name] = [*(known or ()), content] if bracket else content
    return fields


def _invalid(reason: str) -> BadRequest:
    return BadRequest(f"The request body is not a valid form: {reason}", code="invalid_form")
