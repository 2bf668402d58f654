"""HTTP on the wire: uvicorn's own protocol, with bounds on a request's head and on what may come after an
answer.

Knows bytes and time; nothing of routes.
"""

import asyncio
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from server.errors import ApiError, BadRequest
from server.origins import headers_for
from server.plain_parser import PlainParser
from server.slow_reader import SlowReader
from server.stream import ABORT_EXTENSION
from server.until_close import UntilClose

MAX_HEAD_BYTES = 64 << 10
HEAD_TIMEOUT_S = 30.0
LINGER_S = 5.0
"""How long the rest of a body is read and dropped once its request has been answered, so that the answer
arrives."""

_HEAD_TOO_LARGE = f"The request's head is larger than {MAX_HEAD_BYTES} bytes."


class HeadTooLarge(BadRequest):
    status = 431
    default_code = "request_header_too_large"


def bounded_http(send_timeout_s: float, allowed_origins: tuple[str, ...] = ()) -> Any:
    """What uvicorn makes its connections with."""
    return partial(BoundedHttp, send_timeout_s=send_timeout_s, allowed_origins=allowed_origins)


class BoundedHttp(HttpToolsProtocol):
    def __init__(
        self, *args: Any, send_timeout_s: float, allowed_origins: tuple[str, ...] = (), **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.parser = PlainParser(self)
        # As uvicorn does: whoever closes after this request may have sent more already.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._in_head = True
        self._in_body = False
        self._num_head_bytes = 0
        """Received before the head was complete."""
        self._num_field_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._send_timeout_s = send_timeout_s
        self._allowed_origins = allowed_origins
        self._reader: SlowReader | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._reader = SlowReader(transport, self._send_timeout_s)
        self._set_deadline(HEAD_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_deadline(None)
        if self._reader is not None:
            self._reader.leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._num_head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._num_head_bytes > MAX_HEAD_BYTES:
            self._refuse(HeadTooLarge(_HEAD_TOO_LARGE))

    def send_400_response(self, msg: str) -> None:
        self._refuse(BadRequest(msg, code="invalid_http"))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT_EXTENSION: self._abort}  # type: ignore[typeddict-item]
        self._in_head = True
        self._num_head_bytes = self._num_field_bytes = 0
        self._set_deadline(HEAD_TIMEOUT_S)

    def on_url(self, url: bytes) -> None:
        self._num_field_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._num_field_bytes += len(name) + len(value) + 4
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.parser.is_offered:
            return
        self._in_head = False
        self._in_body = True
        self._set_deadline(None)
        if self._num_field_bytes > MAX_HEAD_BYTES:  # it came in one piece
            self._refuse(HeadTooLarge(_HEAD_TOO_LARGE))
        else:
            super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        is_old = cycle.scope["http_version"] != "1.1"
        super()._start_asgi_task(cycle, UntilClose(app, cycle) if is_old else app)  # type: ignore[arg-type]

    def on_message_complete(self) -> None:
        if self.parser.is_offered:
            return
        self._in_body = False
        self._set_deadline(None)
        super().on_message_complete()

    @property
    def has_unsent_answer(self) -> bool:
        return self._reader is not None and self._reader.num_unsent_bytes > 0

    def on_response_complete(self) -> None:
        if self._in_body:
            self._set_deadline(LINGER_S)
        self._watch_reader()
        super().on_response_complete()

    def _set_deadline(self, after_s: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None
        if after_s is not None:
            self._deadline = asyncio.get_running_loop().call_later(after_s, self._abort)

    def _watch_reader(self) -> None:
        if self._reader is not None:
            self._reader.watch()

    def _abort(self) -> None:
        self.transport.abort()

    def _refuse(self, error: ApiError) -> None:
        if self.transport.is_closing():
            return
        body = error.body()
        head = (
            f"HTTP/1.1 {error.status} Refused\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n"
        )
        for name, value in headers_for(self._allowed_origins, self.headers or ()).items():
            head += f"{name}: {value}\r\n"
        self.transport.write(head.encode("latin-1") + b"\r\n" + body)
        self._watch_reader()
        self.transport.close()
