"""A section in a process of its own, ended with all its children when its time is over."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

CARE_S = 15
"""From being told to end, which ends a server that it started, to being ended."""
LOG_LINES = 12


def run(command: list[str], found: Path, seconds: float) -> dict[str, Any]:
    """Run `command`, which writes a `Record` to `found`, and return its content."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, *command],
            env=os.environ | {"HF_HUB_OFFLINE": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        fault = _wait(process, seconds)
        log.seek(0)
        tail = log.read().decode(errors="replace").strip().splitlines()[-LOG_LINES:]
    content = json.loads(found.read_text()) if found.exists() else {"seconds": 0.0, "figures": {}}
    if fault or content.get("status") not in ("ok", "failed"):
        reason = fault or f"ended with exit code {process.returncode}"
        content |= {"status": "failed", "error": "\n".join([reason, content.get("error") or "", *tail])}
    return content


def _wait(process: subprocess.Popen, seconds: float) -> str:
    """Returns what was wrong with how it ended, if it was ended from here."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return f"took longer than {seconds:.0f} s"
    finally:
        _end(process)
    return ""


def _end(process: subprocess.Popen) -> None:
    """Itself and what it left behind."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(CARE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
