"""Colour profiles as they may be given to a colour engine that believes what they say."""

_PROGRAMS = frozenset(f"{way}{intent}".encode() for way in ("D2B", "B2D") for intent in range(4))
_TABLE, _ENTRY_BYTES = 132, 12
_MAX_TAGS = 100
"""Of more tags than this LittleCMS takes none."""


def without_programs(profile: bytes) -> bytes:
    """The profile without its tags of multi-process elements, which hold functions in any number of steps.

    A few bytes can name the same step thousands of times, and some kilobytes keep a processor busy for hours.
    Few profiles have such tags, and those must have tables or curves too (ICC.1:2010, 8.3), which remain.
    """
    plain = bytearray(profile)
    num_tags = min(int.from_bytes(profile[_TABLE - 4 : _TABLE], "big"), _MAX_TAGS)
    for start in range(_TABLE, _TABLE + num_tags * _ENTRY_BYTES, _ENTRY_BYTES):
        name = profile[start : start + 4]
        if name in _PROGRAMS:
            plain[start : start + 4] = name.lower()  # which nobody looks for
    return bytes(plain)
