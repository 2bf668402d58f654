"""What is left of the limits of this process's control group, version 2. Where nothing limits it: None.

A limit of any group above it counts too. A container often sees its own group as the root of all.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def memory_left_bytes(root: Path = ROOT, own: Path = OWN) -> int | None:
    """root: where the groups are mounted. own: names the group below it that this process is in."""
    return _tightest(_memory_left, root, own)


def num_cpus(root: Path = ROOT, own: Path = OWN) -> int | None:
    """How many processors' worth of time there is, rounded up. Parameters as above."""
    return _tightest(_cpus, root, own)


def _tightest(limit_of: Callable[[Path], int | None], root: Path, own: Path) -> int | None:
    limits = (limit_of(group) for group in _groups(root, own))
    return min((limit for limit in limits if limit is not None), default=None)


def _groups(root: Path, own: Path) -> Iterator[Path]:
    """The own group, then those above it. A name that this mount doesn't show is passed over."""
    lines = (_read(own) or "").splitlines()
    name = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    parts = Path(name).parts
    if ".." not in parts:  # else it lies outside of what this container may see
        for depth in range(len(parts), 0, -1):
            yield root.joinpath(*parts[:depth])
    yield root


def _memory_left(group: Path) -> int | None:
    limit, used = _read(group / "memory.max"), _read(group / "memory.current")
    if limit is None or used is None or limit == "max":
        return None
    return max(0, int(limit) - max(0, int(used) - _reclaimable_bytes(group)))


def _reclaimable_bytes(group: Path) -> int:
    """Files that the kernel keeps in memory as long as nobody wants the place, such as weights just read.

    These two lists don't hold shared memory. What is yet to be written to disk can't be let go at once.
    """
    lines = (_read(group / "memory.stat") or "").splitlines()
    sizes = {name: int(size) for name, size in (line.split() for line in lines)}
    kept, unwritten = ("active_file", "inactive_file"), ("file_dirty", "file_writeback")
    return max(0, sum(sizes.get(name, 0) for name in kept) - sum(sizes.get(name, 0) for name in unwritten))


def _cpus(group: Path) -> int | None:
    text = _read(group / "cpu.max")
    if text is None or text.startswith("max"):
        return None
    quota, period = text.split()
    return max(1, math.ceil(int(quota) / int(period)))


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
