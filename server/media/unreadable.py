"""Refusals of media that can't be decoded, the same wherever that is noticed. kind: "image" or "audio"."""

from models.processing.base import MediaError

_CODES = {"image": "image_parse_error", "audio": "invalid_audio"}


def damaged(kind: str) -> MediaError:
    return _refusal(kind, "can't be read: the file is damaged or incomplete")


def too_slow(kind: str) -> MediaError:
    return _refusal(kind, "takes too long to decode")


def too_large(kind: str) -> MediaError:
    return _refusal(kind, "takes too much memory to decode")


def _refusal(kind: str, why: str) -> MediaError:
    return MediaError(f"The {kind} {why}.", _CODES[kind])
