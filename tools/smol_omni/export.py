"""The trained listener as what ships: `python -m tools.smol_omni.export`."""

import torch
from torch import Tensor

from models.smol_omni.adapters import FILE, ROWS, bfloat16, write_tensors
from models.smol_omni.hearing import WHISPER_LAYERS
from models.smol_omni.tokens import HINTS, IDS, MEDIA
from tools.smol_omni.network import read_language
from tools.smol_omni.train import STATE
from tools.smol_omni.tune import STATE as PROMPT


def published(name: str) -> str:
    """The listener's first layer follows Whisper's last."""
    first, *rest = name.split(".")
    if first == "layers":
        rest[0] = str(int(rest[0]) + WHISPER_LAYERS)
    return ".".join(("audio_tower", first, *rest))


def media_rows() -> Tensor:
    """Of all media tokens in order; those that were not tuned keep theirs."""
    rows, first = read_language().rows, min(MEDIA)
    tuned = torch.load(PROMPT)
    for content, row in zip(("<|audio_bos|>", "<|audio_eos|>", *HINTS), tuned, strict=True):
        rows[IDS[content]] = row
    return rows[first : first + len(MEDIA)]


def main() -> None:
    trained = {published(name): value for name, value in torch.load(STATE)["model"].items()}
    if PROMPT.exists():
        trained[ROWS] = media_rows()
    write_tensors(FILE, {name: bfloat16(value.numpy()) for name, value in trained.items()})
    print(f"{FILE}: {FILE.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
