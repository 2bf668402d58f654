"""A server on a loopback port, in a thread: for what only a real connection shows."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from server.app import create_app
from server.launch import HttpServer
from server.protocol import BoundedHttp
from tests.server.fakes import Bench


@contextmanager
def serving(bench: Bench) -> Iterator[int]:
    """The port on which `bench` is served."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        create_app(bench.state),
        http=BoundedHttp,
        ws="none",
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=1,
    )
    server = HttpServer(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
