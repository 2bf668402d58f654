"""Checkpoints that several sections use: whoever comes first makes one."""

import shutil
from pathlib import Path

import torch

from benchmarks.checkpoint import SCALES, build
from benchmarks.gpu_check.sections import Work


def checkpoint(work: Work, scale: int) -> Path:
    """The one of `Plan.scales[scale]`: whole, or not there."""
    name = work.plan.scales[scale]
    directory, unfinished = work.directory / name, work.directory / "unfinished"
    if not directory.exists():
        shutil.rmtree(unfinished, ignore_errors=True)
        # Random numbers for billions of weights take a core a minute, a GPU no time.
        build(SCALES[name], unfinished, device=work.device if scale else "cpu")
        torch.cuda.empty_cache()  # a server will want it
        unfinished.rename(directory)
    return directory
