"""What the machine is and has, and what of the project's dependencies is missing."""

import os
import platform
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import torch
from packaging.requirements import Requirement

from benchmarks.gpu_check.record import Record
from benchmarks.gpu_check.sections import Work
from benchmarks.machine import cpu_name

ROOT = Path(__file__).parents[2]
TOLD = ("torch", "triton", "transformers", "numpy", "safetensors", "tokenizers")
ASKED = "driver_version,clocks.max.sm,clocks.max.memory,power.limit,memory.used,utilization.gpu"


def measure(work: Work, record: Record) -> None:
    record.add(
        python=platform.python_version(),
        system=platform.platform(),
        cpu=cpu_name(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        packages={name: _version(name) for name in TOLD},
        missing=missing(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]),
    )
    if work.device == "cuda":
        record.add(gpu=_gpu(), nvidia_smi=_nvidia_smi())


def missing(dependencies: list[str]) -> list[str]:
    """Those that are not there, or there in another version than is asked for."""
    found = []
    for wanted in map(Requirement, dependencies):
        if wanted.marker and not wanted.marker.evaluate():
            continue
        version = _version(wanted.name)
        if version is None:
            found.append(str(wanted))
        elif not wanted.specifier.contains(version, prereleases=True):
            found.append(f"{wanted} (there is {version})")
    return found


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _gpu() -> dict:
    card = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info()
    return {
        "name": card.name,
        "capability": f"{card.major}.{card.minor}",
        "multiprocessors": card.multi_processor_count,
        "l2_mib": round(card.L2_cache_size / 2**20),
        "memory_gib": round(total / 2**30, 1),
        "free_gib": round(free / 2**30, 1),
        "cuda": torch.version.cuda,
        "count": torch.cuda.device_count(),
    }


def _nvidia_smi() -> dict[str, str]:
    """Empty where the program isn't there or doesn't answer."""
    command = ["nvidia-smi", f"--query-gpu={ASKED}", "--format=csv,noheader", "--id=0"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=15, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip(ASKED.split(","), (word.strip() for word in output.split(",")), strict=False))
