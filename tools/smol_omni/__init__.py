"""The making of the adapters of `smol-omni` (models/smol_omni); see README.md. Not installed."""

from pathlib import Path

CACHE = Path(__file__).parent / ".cache"
CHECKPOINT = CACHE / "smol-omni"  # what `intarsia demo build smol-omni --output` wrote
