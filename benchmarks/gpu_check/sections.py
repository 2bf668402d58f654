"""What there is to run, and how one section is run in this process."""

import importlib
import traceback
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.gpu_check.plan import Plan
from benchmarks.gpu_check.record import Record

ERROR_LINES = 16


class Work(NamedTuple):
    """device: as torch names it. directory: for what one section makes and another uses, like checkpoints."""

    plan: Plan
    device: str
    directory: Path


class Section(NamedTuple):
    """module: has `measure(work, record, **arguments)`; imported only where it runs. weight: its share of the
    time."""

    module: str
    weight: float
    arguments: dict[str, Any] = {}  # noqa: RUF012 (nobody changes it)


SECTIONS = {
    "environment": Section("environment", 3),
    "tests": Section("tests", 6),
    "attention": Section("attention", 6),
    "decode": Section("decode", 4),
    "generate": Section("generate", 4),
    "server": Section("server", 7, {"scale": 0}),
    "server-launched": Section(
        "server",
        3,
        {"scale": 0, "workloads": ("text",), "settings": {"INTARSIA_CUDA_GRAPHS": "false"}},
    ),
    "repeat": Section("repeat", 4),
    "server-larger": Section("server", 7, {"scale": 1}),
}
"""In this order. scale: place in `Plan.scales`."""


def run_here(section: Section, work: Work, record: Record) -> bool:
    """Whether it succeeded. What it raises ends up in the record."""
    try:
        module = importlib.import_module(f"benchmarks.gpu_check.{section.module}")
        module.measure(work, record, **section.arguments)
    except BaseException:  # to be told to stop is a failure like others
        lines = traceback.format_exc(limit=-4).strip().splitlines()
        record.end("failed", "\n".join(lines[-ERROR_LINES:]))
        return False
    record.end("ok")
    return True
