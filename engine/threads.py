"""How many threads a step on the CPU uses, and how they wait for each other."""

import os

from engine.cgroup import num_cpus

FEW_CORES = 2
"""Up to so many a step uses all: half a machine is too much to keep for HTTP, which wants a tenth of a
core. On larger machines one core is left to it, since every thread of a step waits for the one that HTTP
interrupts."""

OPENMP = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "1000"}
"""Environment of a process that computes steps; OpenMP reads it when torch brings it in.

A step's threads wait for each other some eighty times, mostly for microseconds, and to wake one takes longer
than that; but threads that never sleep take the cores that HTTP needs. So they look a thousand times, then
sleep."""


def num_step_threads(wish: int) -> int:
    """`wish`, or for 0 as many as is best on the cores that this process may use: its control group stops
    all threads for a while once together they have used its share."""
    num_cores = len(os.sched_getaffinity(0))
    num_cores = min(num_cores, num_cpus() or num_cores)
    return wish or (num_cores if num_cores <= FEW_CORES else num_cores - 1)
