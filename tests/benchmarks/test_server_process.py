"""A server is measured from when it really answers, under its own name, and leaves nothing behind."""

import socket
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks import server_process
from benchmarks.peers import Launch
from benchmarks.server_process import started

SLOW_TO_LOAD = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self):
        Handler.asked += 1
        with open(sys.argv[2], "a") as log:
            log.write(self.path + "\\n")
        self.send_response(200 if Handler.asked > 3 else 503)
        self.end_headers()

HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def launched_as(monkeypatch):
    def use(how: Launch) -> None:
        monkeypatch.setattr(server_process, "launch", lambda name, checkpoint, port: how)

    return use


def stand_in(port: int, asked: Path, **more) -> Launch:
    return Launch([sys.executable, "-c", SLOW_TO_LOAD, str(port), str(asked)], ready_path="/health", **more)


def start(port: int, tmp_path: Path):
    return started("stand-in", tmp_path, port, tmp_path / "log")


def test_server_that_still_loads_is_waited_for_and_ended_after(port, launched_as, tmp_path):
    launched_as(stand_in(port, tmp_path / "asked"))
    with start(port, tmp_path) as server:
        assert server.base_url == f"http://127.0.0.1:{port}/v1"
        assert (tmp_path / "asked").read_text().splitlines() == ["/health"] * 4
        pid = server.process.pid
    assert not psutil.pid_exists(pid)


def test_server_that_leaves_is_said_with_its_log(port, launched_as, tmp_path):
    launched_as(Launch([sys.executable, "-c", "raise SystemExit(3)"]))
    with pytest.raises(RuntimeError, match=r"exit code 3, see .*log"), start(port, tmp_path):
        pass


def test_port_of_another_server_is_refused(port, launched_as, tmp_path):
    launched_as(stand_in(port, tmp_path / "asked"))
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(OSError, match="in use"), start(port, tmp_path):
            pass
    assert not (tmp_path / "asked").exists()


def test_checkpoint_is_prepared_once(port, launched_as, tmp_path):
    made = tmp_path / "made"
    prepare = [sys.executable, "-c", f"open({str(made)!r}, 'a').write('x')"]
    launched_as(stand_in(port, tmp_path / "asked", preparation=(made, prepare)))
    for _ in range(2):
        with start(port, tmp_path):
            assert made.read_text() == "x"


def test_failed_preparation_is_said_with_its_log(port, launched_as, tmp_path):
    prepare = [sys.executable, "-c", "raise SystemExit(1)"]
    launched_as(stand_in(port, tmp_path / "asked", preparation=(tmp_path / "made", prepare)))
    with pytest.raises(RuntimeError, match=r"prepared, see .*log"), start(port, tmp_path):
        pass
    assert not (tmp_path / "asked").exists()
