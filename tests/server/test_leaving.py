"""Leaving is bounded whatever still runs, and its exit code tells whether accepted requests were cut off."""

import asyncio
import socket
import subprocess
import sys

import pytest

from server import launch
from server.launch import Launch
from server.settings import Settings

HELD_THREAD = """
import asyncio, os, signal, socket, threading
from server import launch
from server.settings import Settings

launch.HARD_EXIT_S = 0.1
threading.Thread(target=threading.Event().wait).start()

async def run():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        launch.Launch(Settings(drain_timeout=0), listener)._on_signal()

asyncio.run(run())
"""
HELD_LOAD = """
import asyncio, os, signal, sys, threading
from server import cli, launch

async def load(*_):
    asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGTERM)
    await asyncio.to_thread(threading.Event().wait)

launch.load = load
cli.main(["serve", "--port", "0"])
"""


@pytest.mark.parametrize(("program", "code"), [(HELD_THREAD, 1), (HELD_LOAD, 0)])
def test_no_thread_keeps_the_process(program: str, code: int) -> None:
    """Neither after the loop has gone, nor a download that no one waits for any more."""
    done = subprocess.run([sys.executable, "-c", program], timeout=60, stderr=subprocess.DEVNULL)
    assert done.returncode == code


@pytest.mark.parametrize(
    ("num_accepted", "num_unsent", "hurried", "code"),
    [(0, 0, False, 0), (0, 0, True, 0), (1, 0, False, 1), (1, 0, True, 1), (0, 1, False, 1)],
)
def test_the_exit_code_is_about_accepted_requests(
    num_accepted: int, num_unsent: int, hurried: bool, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload that is still on its way is none."""
    monkeypatch.setattr(launch, "CLOSE_S", 0.01)
    monkeypatch.setattr(Launch, "_num_unsent_answers", num_unsent)

    async def run() -> int:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            leaving = Launch(Settings(drain_timeout=60 if hurried else 0.01), listener)
            upload = asyncio.create_task(asyncio.sleep(60))
            leaving._http.server_state.tasks.add(upload)
            leaving._state.telemetry.num_accepted = num_accepted
            if hurried:
                leaving._hurried.set()
            engine = asyncio.create_task(asyncio.sleep(60))
            return await leaving._drain(engine)

    assert asyncio.run(run()) == code
