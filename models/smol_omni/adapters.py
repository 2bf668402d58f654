"""What this project trained: a layer behind Whisper's encoder, the norm, and the projection.

A tensor is its bfloat16 bits here, a uint16 array: numpy has no bfloat16, so the safetensors library
gives and takes none without torch. The format is a length, a header in JSON, and the tensors end to end.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parent / "adapters.safetensors"


def bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 to bits, rounded to nearest, ties to even. Of finite values."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def read_adapters(file: Path = FILE) -> dict[str, np.ndarray]:
    """By name, below `thinker.`. ValueError unless all are bfloat16."""
    data = file.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:begin]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "BF16":
            raise ValueError(f"{file}: {name} is {entry['dtype']}, not BF16")
        first, last = entry["data_offsets"]
        bits = np.frombuffer(data, np.uint16, (last - first) // 2, begin + first)
        tensors[name] = bits.reshape(entry["shape"])
    return tensors


def write_tensors(file: Path, tensors: dict[str, np.ndarray]) -> None:
    """tensors: bfloat16 bits by name."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, bits in tensors.items():
        header[name] = {"dtype": "BF16", "shape": list(bits.shape), "data_offsets": [at, at + bits.nbytes]}
        at += bits.nbytes
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)  # so that the data is aligned
    with file.open("wb") as out:
        out.write(len(head).to_bytes(8, "little") + head)
        for bits in tensors.values():
            out.write(bits.tobytes())
