"""How many threads a step on the CPU uses."""

import os

FEW_CORES = 2
"""Up to so many a step uses all: half a machine is too much to keep for HTTP, which wants a tenth of a
core. On larger machines one core is left to it, since every thread of a step waits for the one that HTTP
interrupts."""


def num_step_threads(wish: int) -> int:
    """`wish`, or for 0 as many as is best on the cores that this process may use."""
    num_cores = len(os.sched_getaffinity(0))
    return wish or (num_cores if num_cores <= FEW_CORES else num_cores - 1)
