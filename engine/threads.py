"""How many threads a step on the CPU uses."""

import os


def num_step_threads(wish: int) -> int:
    """`wish`, or for 0 all cores that this process may use but one, which is left to HTTP and templates."""
    return wish or max(1, len(os.sched_getaffinity(0)) - 1)
