"""The tests that a GPU changes, by pytest, counted one by one: those that ran before a hang count too."""

from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.gpu_check.record import Record
from benchmarks.gpu_check.sections import Work

ROOT = Path(__file__).parents[2]
MOST_FAILURES = 20


class Tally:
    """A plugin of pytest's that keeps count."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self.outcomes: Counter[str] = Counter()
        self._failures: dict[str, str] = {}
        self._reasons: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._fail(report)
        elif report.skipped:
            self._count("skipped")
            self._reasons[str(report.longrepr[-1] if isinstance(report.longrepr, tuple) else "")] += 1
        elif report.when == "call":
            self._count("passed")
        self._note()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._fail(report)
            self._note()

    def _fail(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        self._count("failed")
        if len(self._failures) < MOST_FAILURES:
            self._failures[report.nodeid] = report.longreprtext[-1000:]

    def _count(self, outcome: str) -> None:
        self.outcomes[outcome] += 1

    def _note(self) -> None:
        self._record.add(**self.outcomes, failures=self._failures, skipped_because=dict(self._reasons))


def measure(work: Work, record: Record) -> None:
    """RuntimeError if a test failed, or none ran."""
    plan, tally = work.plan, Tally(record)
    paths = [str(ROOT / path) for path in plan.test_paths]
    options = ["--rootdir", str(ROOT), "-p", "no:cacheprovider", "-m", "not slow", "--tb", "short"]
    if plan.test_processes and find_spec("xdist"):
        options += ["-n", str(plan.test_processes)]
    code = pytest.main([*options, *paths], plugins=[tally])
    if code != pytest.ExitCode.OK:
        raise RuntimeError(f"pytest: {pytest.ExitCode(code).name}, {dict(tally.outcomes)}")
