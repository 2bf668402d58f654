"""What a call sends to a GPU, recorded as a CUDA graph and sent again at once."""

import warnings
from collections.abc import Callable
from typing import Any

import torch


class CudaRecording:
    """output: of the recorded call, the same tensor after every replay; see `CudaRecorder` for how long it
    holds."""

    def __init__(self, graph: torch.cuda.CUDAGraph, output: Any) -> None:
        self._graph, self.output = graph, output

    def replay(self) -> None:
        self._graph.replay()


class CudaRecorder:
    """Its recordings share memory: replay them on one stream, and use what one has computed before the next
    is replayed."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, call: Callable[[], Any]) -> CudaRecording:
        """Makes the call twice. Raises whatever it does, and RuntimeError if the host waits in it."""
        here = torch.cuda.current_stream()
        try:
            self._once(call, here)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(
                graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
            ):
                output = call()
        finally:
            # A recording that can't be ended leaves torch on its stream: all that follows would run there.
            torch.cuda.set_stream(here)
        return CudaRecording(graph, output)

    def _once(self, call: Callable[[], Any], here: torch.cuda.Stream) -> None:
        """What happens only once: compiled kernels, workspaces of the stream. A wait is refused here, since a
        recording that fails of it would leave torch's allocator (before 2.12) behind in the midst of it."""
        self._stream.wait_stream(here)
        _refuse_waits("error")
        try:
            with torch.cuda.stream(self._stream):
                call()
        finally:
            _refuse_waits("default")
            here.wait_stream(self._stream)


def _refuse_waits(mode: str) -> None:
    with warnings.catch_warnings(action="ignore"):  # that not every wait is noticed: nobody relies on it
        torch.cuda.set_sync_debug_mode(mode)
