"""What the server's process is set to before it does anything."""

import os
import subprocess
import sys

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


def test_numpy_brings_no_threads_of_its_own() -> None:
    """Its products' threads would spin beside the engine's."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment
    )
    started, before = map(int, done.stdout.split())
    assert started == 0
    assert before == 1
