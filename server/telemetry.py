"""Counters and histograms of the server, and their Prometheus text. The ledger: accepted = completed +
failed + cancelled + open."""

import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager

from engine.messages import EngineStats
from server.errors import ApiError, as_api_error

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Histogram:
    """Cumulative counts below fixed bounds, as Prometheus wants them."""

    def __init__(self, bounds: tuple[float, ...] = _SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> Iterator[str]:
        total = 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            label = "+Inf" if bound == float("inf") else f"{bound:g}"
            yield f'{name}_bucket{{le="{label}"}} {total}'
        yield f"{name}_sum {self._sum:.6f}"
        yield f"{name}_count {total}"


class Telemetry:
    def __init__(self) -> None:
        self.num_accepted = 0
        self.num_completed = 0
        self.num_failed = 0
        self.num_cancelled = 0
        self.num_prompt_tokens = 0
        self.num_completion_tokens = 0
        self.queue_s = Histogram()
        self.first_token_s = Histogram()
        self.between_tokens_s = Histogram()
        self.request_s = Histogram()

    @property
    def num_open(self) -> int:
        return self.num_accepted - self.num_completed - self.num_failed - self.num_cancelled

    @contextmanager
    def accepted(self) -> Iterator[None]:
        """Around all that is done for one accepted request: it ends in exactly one of three ways."""
        self.num_accepted += 1
        started = time.monotonic()
        try:
            yield
        except Exception as error:
            self.num_failed += 1
            raise error if isinstance(error, ApiError) else as_api_error(error) from error
        except BaseException:
            self.num_cancelled += 1
            raise
        else:
            self.num_completed += 1
        finally:
            self.request_s.observe(time.monotonic() - started)

    def page(self, stats: EngineStats | None, num_queued: int) -> str:
        """Prometheus text, version 0.0.4."""
        lines: list[str] = []
        for name, value in self._counters(stats).items():
            lines += [f"# TYPE intarsia_{name} counter", f"intarsia_{name} {value}"]
        for name, value in self._gauges(stats, num_queued).items():
            lines += [f"# TYPE intarsia_{name} gauge", f"intarsia_{name} {value}"]
        histograms = {
            "queue_seconds": self.queue_s,
            "time_to_first_token_seconds": self.first_token_s,
            "time_between_tokens_seconds": self.between_tokens_s,
            "request_seconds": self.request_s,
        }
        for name, histogram in histograms.items():
            lines += [f"# TYPE intarsia_{name} histogram", *histogram.lines(f"intarsia_{name}")]
        return "\n".join(lines) + "\n"

    def _counters(self, stats: EngineStats | None) -> dict[str, int]:
        counters = {
            "requests_accepted_total": self.num_accepted,
            "requests_completed_total": self.num_completed,
            "requests_failed_total": self.num_failed,
            "requests_cancelled_total": self.num_cancelled,
            "prompt_tokens_total": self.num_prompt_tokens,
            "completion_tokens_total": self.num_completion_tokens,
        }
        if stats is not None:
            counters |= {
                f"engine_{name.removeprefix('num_')}_total": getattr(stats, name)
                for name in stats.__struct_fields__
                if name.startswith("num_") and name not in _GAUGES
            }
        return counters

    def _gauges(self, stats: EngineStats | None, num_queued: int) -> dict[str, int]:
        gauges = {"requests_open": self.num_open, "requests_queued": num_queued}
        if stats is not None:
            gauges |= {
                f"engine_{name.removeprefix('num_')}": getattr(stats, name) for name in sorted(_GAUGES)
            }
        return gauges


_GAUGES = {
    "num_running",
    "num_waiting",
    "num_free_blocks",
    "num_blocks",
    "num_cached_blocks",
    "encoder_cache_used_bytes",
}
