"""The listener's layers are numbered from 0, the audio tower's from Whisper's first."""

from models.smol_omni.hearing import WHISPER_LAYERS

TOWER = "audio_tower."


def published(name: str) -> str:
    """The listener's name of a tensor to the tower's."""
    return TOWER + _moved(name, WHISPER_LAYERS)


def listened(name: str) -> str:
    """And back."""
    return _moved(name.removeprefix(TOWER), -WHISPER_LAYERS)


def _moved(name: str, layers: int) -> str:
    first, *rest = name.split(".")
    if first == "layers":
        rest[0] = str(int(rest[0]) + layers)
    return ".".join((first, *rest))
