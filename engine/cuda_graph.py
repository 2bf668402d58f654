"""What a call sends to a GPU, recorded as a CUDA graph and sent again at once."""

from collections.abc import Callable
from typing import Any

import torch


class CudaRecording:
    """output: of the recorded call, in memory that stays its own."""

    def __init__(self, graph: torch.cuda.CUDAGraph, output: Any) -> None:
        self._graph, self.output = graph, output

    def replay(self) -> None:
        self._graph.replay()


class CudaRecorder:
    """Its recordings share the memory between their outputs: replay one after another, on one stream."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, call: Callable[[], Any]) -> CudaRecording:
        """Makes the call twice. Raises whatever it does, and RuntimeError if the host waits in it."""
        self._once(call)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            output = call()
        return CudaRecording(graph, output)

    def _once(self, call: Callable[[], Any]) -> None:
        """What happens only once: compiled kernels, workspaces of the stream. A wait is refused here, since a
        recording that fails of it would leave torch's allocator behind in the midst of it."""
        here = torch.cuda.current_stream()
        self._stream.wait_stream(here)
        torch.cuda.set_sync_debug_mode("error")
        try:
            with torch.cuda.stream(self._stream):
                call()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        here.wait_stream(self._stream)
