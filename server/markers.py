"""Finding a marker in text that comes in pieces."""

MAX_HELD = 1 << 12
"""Characters that may be held back for what they could still become: all are searched again with every piece
of text."""


def unfinished(text: str, marker: str) -> int:
    """Where the longest tail of `text` that could still grow into `marker` begins; `len(text)` if there is
    none."""
    for start in range(max(0, len(text) - len(marker) + 1), len(text)):
        if marker.startswith(text[start:]):
            return start
    return len(text)
