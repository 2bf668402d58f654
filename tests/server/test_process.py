"""What the server's process is set to before it does anything."""

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import os
import server.cli
import numpy as np
before = len(os.listdir("/proc/self/task"))
a = np.ones((512, 512), np.float32)
for _ in range(3):
    a @ a
print(len(os.listdir("/proc/self/task")) - before, before)
"""


FAULTS = """
import resource, sys
from engine.allocator import keep_some_freed_memory
if sys.argv[1] == "keep":
    keep_some_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def touch():
    bytearray(b"x" * (2 << 20))
touch()
before = faults()
for _ in range(20):
    touch()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_memory_that_was_used_is_used_again() -> None:
    def faults(how: str) -> int:
        command = [sys.executable, "-c", FAULTS, how]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert faults("keep") < 20 < faults("leave")


def test_numpy_brings_no_threads_of_its_own() -> None:
    """Its products' threads would spin beside the engine's."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment
    )
    started, before = map(int, done.stdout.split())
    assert started == 0
    assert before == 1
