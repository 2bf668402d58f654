"""Names for processors: part of what two pictures or sounds must share to be the same thing."""

import json
from importlib.metadata import version
from typing import Any


def fingerprint(processing: object, settings: dict[str, Any]) -> str:
    """One line that names a processor, its settings and the libraries whose versions shape its output."""
    libraries = {name: version(name) for name in ("pillow", "numpy")}
    return f"{type(processing).__name__} {json.dumps({**settings, **libraries}, sort_keys=True)}"
