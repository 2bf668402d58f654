"""What a recording that fails leaves behind, on a GPU that is only pretended: whoever goes on without it
finds torch as it was."""

import warnings
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from engine.cuda_graph import CudaRecorder


class PretendedStream:
    def __init__(self, _: object = None) -> None:
        self.waited_for: list[PretendedStream] = []

    def wait_stream(self, other: "PretendedStream") -> None:
        self.waited_for.append(other)


class PretendedCuda:
    """What the recorder uses of torch.cuda. As there, a recording that can't be ended leaves its stream the
    current one, and waits are refused with a warning about that. can_end: whether one can."""

    def __init__(self, can_end: bool) -> None:
        self.can_end = can_end
        self.main = self.current = PretendedStream()
        self.sync_debug_mode = "default"

    @contextmanager
    def stream(self, stream: PretendedStream):
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    @contextmanager
    def graph(self, graph: Any, *, pool: Any, stream: PretendedStream, capture_error_mode: str):
        before, self.current = self.current, stream
        try:
            yield
        finally:
            if not self.can_end:
                raise RuntimeError("the capture was invalidated")
            self.current = before

    def set_stream(self, stream: PretendedStream) -> None:
        self.current = stream

    def set_sync_debug_mode(self, mode: str) -> None:
        warnings.warn("a prototype", stacklevel=1)
        self.sync_debug_mode = mode


@pytest.fixture
def cuda(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> PretendedCuda:
    pretended = PretendedCuda(getattr(request, "param", True))
    for name in ("stream", "graph", "set_stream", "set_sync_debug_mode"):
        monkeypatch.setattr(torch.cuda, name, getattr(pretended, name))
    monkeypatch.setattr(torch.cuda, "Stream", PretendedStream)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: pretended.current)
    return pretended


def left_as_it_was(cuda: PretendedCuda) -> bool:
    return cuda.current is cuda.main and cuda.sync_debug_mode == "default"


def test_a_call_runs_once_with_waits_refused_and_is_recorded_without(cuda: PretendedCuda) -> None:
    """While waits are refused torch itself could not prepare a recording, for which it waits."""
    calls = []
    recorder = CudaRecorder(torch.device("cuda"))
    recording = recorder(lambda: calls.append((cuda.sync_debug_mode, cuda.current)) or len(calls))
    assert [mode for mode, _ in calls] == ["error", "default"]
    side = calls[0][1]
    assert calls[1][1] is side is not cuda.main
    assert side.waited_for == [cuda.main]
    assert cuda.main.waited_for == [side]
    assert recording.output == 2
    assert left_as_it_was(cuda)


@pytest.mark.parametrize("cuda", [False], indirect=True)
def test_a_recording_that_can_not_be_ended_leaves_the_stream_as_it_was(cuda: PretendedCuda) -> None:
    with pytest.raises(RuntimeError, match="invalidated"):
        CudaRecorder(torch.device("cuda"))(lambda: None)
    assert left_as_it_was(cuda)


def test_after_a_call_that_fails_what_it_had_sent_is_waited_for(cuda: PretendedCuda) -> None:
    def call() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        CudaRecorder(torch.device("cuda"))(call)
    assert len(cuda.main.waited_for) == 1
    assert left_as_it_was(cuda)
