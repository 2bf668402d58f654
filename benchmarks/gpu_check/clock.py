"""How long calls take on a device, and what the device can do at best."""

import itertools
import statistics
from collections.abc import Callable
from typing import NamedTuple

import torch

from benchmarks.decode_floor import fastest
from benchmarks.gpu_check.plan import Plan
from engine.cuda_graph import CudaRecorder

Call = Callable[[], object]
FEWEST, MOST = 3, 200
"""Repetitions of a measurement."""
LAUNCHES = 200


class Clock:
    """On a GPU by its own events, the median; on a CPU by the time of one thread, the fastest."""

    def __init__(self, device: torch.device, cell_s: float) -> None:
        self.device, self._cell_s = device, cell_s

    def seconds(self, call: Call) -> float:
        """Of one call after another as Python launches them, so the host's time where that is longer."""
        if self.device.type == "cpu":
            torch.set_num_threads(1)
            call()
            return fastest({"": call}, FEWEST)[""]
        call()
        (estimate,) = self._events(call, 1)
        return statistics.median(
            self._events(call, max(FEWEST, min(MOST, int(self._cell_s / max(estimate, 1e-6)))))
        )

    def replayed_s(self, call: Call) -> float | None:
        """Of the call as a CUDA graph, so without the host; None where it can't be one, or on a CPU.

        The call has been made before: what happens once is not part of it.
        """
        if self.device.type == "cpu":
            return None
        try:
            recording = CudaRecorder(self.device)(call)
        except RuntimeError:
            torch.cuda.synchronize()
            return None
        return self.seconds(recording.replay)

    def _events(self, call: Call, times: int) -> list[float]:
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(times + 1)]
        marks[0].record()
        for mark in marks[1:]:
            call()
            mark.record()
        torch.cuda.synchronize()
        return [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(marks)]


class Limits(NamedTuple):
    """bytes_per_s: of a copy, read and written. flop_per_s: of a bfloat16 product of random squares."""

    bytes_per_s: float
    flop_per_s: float


def limits(clock: Clock, plan: Plan) -> Limits:
    source = torch.empty(plan.copied_bytes, dtype=torch.uint8, device=clock.device).random_()
    target = torch.empty_like(source)
    copied = clock.seconds(lambda: target.copy_(source))
    side = plan.matrix_side
    a, b = (torch.randn(side, side, device=clock.device).bfloat16() for _ in range(2))
    multiplied = clock.seconds(lambda: a @ b)
    return Limits(2 * plan.copied_bytes / copied, 2 * side**3 / multiplied)


def launch_us(clock: Clock) -> dict[str, float | None]:
    """Of one of many small kernels in a row, launched from Python and out of a graph."""
    x = torch.zeros(16, device=clock.device)

    def many() -> None:
        for _ in range(LAUNCHES):
            x.add_(1.0)

    eager, replayed = clock.seconds(many), clock.replayed_s(many)
    return {"eager": eager / LAUNCHES * 1e6, "graph": replayed and replayed / LAUNCHES * 1e6}
