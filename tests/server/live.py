"""A server on a loopback port, in a thread: for what only a real connection shows."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from server.app import create_app
from server.launch import HttpServer
from server.protocol import bounded_http
from tests.server.fakes import Bench


@contextmanager
def serving(bench: Bench) -> Iterator[int]:
    """The port on which `bench` is served."""
    settings = bench.state.settings
    with serving_app(create_app(bench.state), settings.send_timeout, settings.allowed_origins) as (port, _):
        yield port


@contextmanager
def serving_app(
    app: ASGIApp, send_timeout_s: float, allowed_origins: tuple[str, ...] = ()
) -> Iterator[tuple[int, HttpServer]]:
    """The port on which `app` is served, and what serves it."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        http=bounded_http(send_timeout_s, allowed_origins),
        ws="none",
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=1,
    )
    server = HttpServer(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], server
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
