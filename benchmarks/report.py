"""Results as a table, as JSON and as a plot; between servers as ratios with their spread."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.measure import Result

COLUMNS = {
    "ttft_first_ms": "TTFT first, ms",
    "ttft_later_ms": "TTFT later, ms",
    "gap_median_ms": "gap p50",
    "gap_p95_ms": "p95",
    "gap_p99_ms": "p99",
    "output_tokens_per_s": "out tok/s",
    "requests_per_s": "req/s",
    "wall_s": "total s",
}
RATIO_COLUMNS = ("ttft_first_ms", "ttft_later_ms", "gap_median_ms", "output_tokens_per_s", "wall_s")

Rounds = dict[str, list[list[Result]]]
"""server name -> one list of results for each round."""


def table(rounds: Rounds) -> Table:
    """The median over rounds, a row for each workload, concurrency and server."""
    view = Table("workload", "users", "server", *COLUMNS.values(), "cached", "errors")
    for cell in range(len(next(iter(rounds.values()))[0])):
        for server, results in rounds.items():
            of_cell = [results_of_round[cell] for results_of_round in results]
            head = of_cell[0]
            numbers = (f"{_median(of_cell, column):.1f}" for column in COLUMNS)
            cached = f"{100 * head.cached_tokens / max(1, head.prompt_tokens):.0f}%"
            errors = str(sum(result.num_errors for result in of_cell))
            view.add_row(head.workload, str(head.concurrency), server, *numbers, cached, errors)
    return view


def ratios(rounds: Rounds, ours: str, peer: str) -> Table:
    """ours / peer, taken round by round: median (min..max)."""
    view = Table("workload", "users", *(f"{COLUMNS[column]} {ours}/{peer}" for column in RATIO_COLUMNS))
    for cell in range(len(rounds[ours][0])):
        pairs = [(a[cell], b[cell]) for a, b in zip(rounds[ours], rounds[peer], strict=True)]
        head = pairs[0][0]
        view.add_row(
            head.workload, str(head.concurrency), *(_ratio(pairs, column) for column in RATIO_COLUMNS)
        )
    return view


def _ratio(pairs: Sequence[tuple[Result, Result]], column: str) -> str:
    values = [getattr(a, column) / getattr(b, column) for a, b in pairs if getattr(b, column)]
    if not values or values[0] != values[0]:
        return "–"
    return f"{statistics.median(values):.2f} ({min(values):.2f}..{max(values):.2f})"


def _median(results: Sequence[Result], column: str) -> float:
    return statistics.median(getattr(result, column) for result in results)


def write_json(rounds: Rounds, facts: dict, path: Path) -> None:
    """facts: what was measured on what (machine, checkpoint, start-up time, memory)."""
    content = {
        name: [[result._asdict() for result in one] for one in results] for name, results in rounds.items()
    }
    path.write_text(json.dumps({"facts": facts, "rounds": content}, indent=1))


def plot(rounds: Rounds, path: Path) -> None:
    """Output tokens/s over concurrency, a panel for each workload."""
    from matplotlib import pyplot

    workloads = list(dict.fromkeys(result.workload for result in next(iter(rounds.values()))[0]))
    figure, axes = pyplot.subplots(1, len(workloads), figsize=(4 * len(workloads), 3.5), squeeze=False)
    for axis, workload in zip(axes[0], workloads, strict=True):
        for server, results in rounds.items():
            cells = [cell for cell, result in enumerate(results[0]) if result.workload == workload]
            heights = [_median([one[cell] for one in results], "output_tokens_per_s") for cell in cells]
            axis.plot([results[0][cell].concurrency for cell in cells], heights, marker="o", label=server)
        axis.set(title=workload, xlabel="users at once", ylabel="output tokens/s", ylim=(0, None))
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
