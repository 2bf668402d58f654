"""The server as its users meet it, through HTTP: workloads of `intarsia bench`, from one user to many."""

import asyncio
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from unittest.mock import patch

from benchmarks.gpu_check.made import checkpoint
from benchmarks.gpu_check.record import Record
from benchmarks.gpu_check.sections import Work
from benchmarks.measure import run
from benchmarks.server_process import Server, started

FEWEST_CHATS = 4
LOG_LINES = 20
"""Kept of the beginning of a server's log, and of its end."""


def measure(
    work: Work,
    record: Record,
    scale: int,
    workloads: Sequence[str] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """workloads: of the plan's, none for all. settings: variables of the server's environment.

    RuntimeError if a request failed.
    """
    failed = 0
    record.add(settings=dict(settings))
    with patch.dict(os.environ, settings), serving(work, record, scale) as server:
        for workload in workloads or work.plan.workloads:
            for users in work.plan.users:
                if not record.time_left_s:
                    record.row("left_out", workload=workload, users=users)
                    continue
                num_chats = max(users, FEWEST_CHATS)
                result = asyncio.run(run(server.base_url, server.model, workload, users, num_chats, users))
                record.row("cells", **result._asdict())
                failed += result.num_errors
    if failed:
        raise RuntimeError(f"{failed} requests failed")


@contextmanager
def serving(work: Work, record: Record, scale: int) -> Iterator[Server]:
    """A server that has answered before; its log is recorded, whatever happens."""
    directory = checkpoint(work, scale)
    log = work.directory / f"server-{os.getpid()}.log"
    record.add(scale=work.plan.scales[scale])
    try:
        with started("intarsia", directory, _free_port(), log, max(30.0, record.time_left_s)) as server:
            record.add(ready_s=server.ready_s)
            for workload in ("text", "image-cold"):  # what happens once
                asyncio.run(run(server.base_url, server.model, workload, 1, 2, seed=10_000))
            yield server
            record.add(resident_mib=server.resident_mib())
    finally:
        record.add(log=_ends(log))


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _ends(log: Path) -> list[str]:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return lines if len(lines) <= 2 * LOG_LINES else [*lines[:LOG_LINES], "…", *lines[-LOG_LINES:]]
