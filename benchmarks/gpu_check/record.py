"""What a section finds, on disk from the first figure on: whoever ends it, that much is known."""

import json
import os
import time
from pathlib import Path
from typing import Any


class Record:
    """Figures of one section: single ones, and tables of rows. seconds: what it may take."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path, self._start, self._seconds = path, time.monotonic(), seconds
        self._content: dict[str, Any] = {"status": "running", "seconds": 0.0, "error": "", "figures": {}}
        self._write()

    @property
    def time_left_s(self) -> float:
        """0 once nothing new should be begun."""
        return max(0.0, self._start + self._seconds - time.monotonic())

    def add(self, **figures: Any) -> None:
        self._content["figures"].update(figures)
        self._write()

    def row(self, table: str, **cells: Any) -> None:
        self._content["figures"].setdefault(table, []).append(cells)
        self._write()

    def end(self, status: str, error: str = "") -> None:
        self._content |= {"status": status, "error": error}
        self._write()

    def _write(self) -> None:
        self._content["seconds"] = round(time.monotonic() - self._start, 1)
        unfinished = self._path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(self._content, indent=1))
        os.replace(unfinished, self._path)
