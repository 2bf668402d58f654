"""The trained listener as what ships: `python -m tools.smol_omni.export`."""

import torch

from models.smol_omni.adapters import FILE, bfloat16, write_tensors
from tools.smol_omni.names import published
from tools.smol_omni.stages import latest


def main() -> None:
    trained = {published(name): value for name, value in torch.load(latest())["model"].items()}
    write_tensors(FILE, {name: bfloat16(value.numpy()) for name, value in trained.items()})
    print(f"{FILE}: {FILE.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
