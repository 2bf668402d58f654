"""Limits of control groups, on directories that look like them."""

from pathlib import Path

import pytest

from engine.cgroup import memory_left_bytes, num_cpus

SMALL = {"memory.max": "1000\n", "memory.current": "900\n"}


class Machine:
    """root: where the groups are. own: the file that names the process's."""

    def __init__(self, folder: Path, name: str = "/") -> None:
        self.root, self.own = folder / "cgroup", folder / "own"
        self.root.mkdir()
        self.own.write_text(f"12:pids:/elsewhere\n0::{name}\n")

    def group(self, name: str, files: dict[str, str]) -> None:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (folder / file).write_text(text)

    @property
    def memory_left(self) -> int | None:
        return memory_left_bytes(self.root, self.own)

    @property
    def cpus(self) -> int | None:
        return num_cpus(self.root, self.own)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_no_groups_and_no_limits(machine: Machine) -> None:
    assert (machine.memory_left, machine.cpus) == (None, None)
    machine.group("", {"memory.max": "max\n", "memory.current": "5\n", "cpu.max": "max 100000\n"})
    assert (machine.memory_left, machine.cpus) == (None, None)
    machine.own.unlink()
    assert (machine.memory_left, machine.cpus) == (None, None)


def test_what_is_used_is_not_left(machine: Machine) -> None:
    machine.group("", SMALL)
    assert machine.memory_left == 100
    machine.group("", {"memory.current": "1100"})
    assert machine.memory_left == 0


def test_files_that_were_read_are_not_in_use(machine: Machine) -> None:
    stat = {"anon": 250, "file": 640, "shmem": 40, "active_file": 200, "inactive_file": 400}
    machine.group("", SMALL | {"memory.stat": lines(stat)})
    assert machine.memory_left == 1000 - (900 - 600)
    machine.group("", {"memory.stat": lines(stat | {"file_dirty": 30, "file_writeback": 20})})
    assert machine.memory_left == 1000 - (900 - 550)


def test_no_more_is_left_than_the_limit(machine: Machine) -> None:
    """The counts are taken one after the other, and need not agree."""
    machine.group("", {"memory.max": "1000", "memory.current": "5", "memory.stat": "active_file 9\n"})
    assert machine.memory_left == 1000


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("200000 100000\n", 2), ("150000 100000", 2), ("10000 100000", 1), ("6400000 100000", 64)],
)
def test_a_share_of_the_processors_is_rounded_up(machine: Machine, text: str, cpus: int) -> None:
    machine.group("", {"cpu.max": text})
    assert machine.cpus == cpus


@pytest.mark.parametrize(("service", "above"), [(50, 900), (900, 50)])
def test_every_group_above_limits_too(tmp_path: Path, service: int, above: int) -> None:
    machine = Machine(tmp_path, "/system.slice/intarsia.service")
    for name, left in (("system.slice/intarsia.service", service), ("system.slice", above)):
        files = {"memory.max": "1000", "memory.current": str(1000 - left), "cpu.max": f"{left} 10"}
        machine.group(name, files)
    machine.group("other.slice", {"memory.max": "1", "memory.current": "1", "cpu.max": "1 1"})
    assert (machine.memory_left, machine.cpus) == (50, 5)


@pytest.mark.parametrize("name", ["/kubepods/not-shown-here", "/../outside"])
def test_a_group_that_the_container_does_not_see(tmp_path: Path, name: str) -> None:
    machine = Machine(tmp_path, name)
    machine.group("", SMALL | {"cpu.max": "3 1"})
    machine.group("../outside", {"memory.max": "1", "memory.current": "1", "cpu.max": "1 1"})
    assert (machine.memory_left, machine.cpus) == (100, 3)


def lines(sizes: dict[str, int]) -> str:
    return "".join(f"{name} {size}\n" for name, size in sizes.items())
