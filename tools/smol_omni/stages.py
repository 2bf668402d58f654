"""Where each stage of the training leaves the listener."""

from pathlib import Path

from tools.smol_omni import CACHE

HEARING, MATCHED, TAUGHT = (CACHE / f"{name}.pt" for name in ("listener", "matched", "taught"))


def latest() -> Path:
    """Of the last stage that was begun."""
    return next(stage for stage in (TAUGHT, MATCHED, HEARING) if stage.exists())
