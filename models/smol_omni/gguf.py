"""GGUF files, version 3: metadata, and tensors as float32, of the kinds that SmolLM2's file holds.

Read from the format's description in ggml's `docs/gguf.md` and from the block layouts in `ggml-common.h`.
"""

import struct
from typing import Any, NamedTuple

import numpy as np

_SCALARS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_F32, _Q4_1, _Q8_0 = 0, 3, 8
_BLOCK = 32
_ALIGNMENT = 32


class Gguf(NamedTuple):
    metadata: dict[str, Any]
    tensors: dict[str, np.ndarray]
    """[out, in] as in PyTorch, the file's order of axes reversed."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, form: str) -> Any:
        (value,) = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return value

    def text(self) -> str:
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            inner, size = self.number("I"), self.number("Q")
            return [self.value(inner) for _ in range(size)]
        return self.number(_SCALARS[kind])


def read_gguf(data: bytes) -> Gguf:
    """ValueError for another format, or for tensors of another kind."""
    reader = _Reader(data)
    if data[:4] != b"GGUF" or struct.unpack_from("<I", data, 4) != (3,):
        raise ValueError("not a GGUF file of version 3")
    reader.at = 8
    num_tensors, num_entries = reader.number("Q"), reader.number("Q")
    metadata = {}
    for _ in range(num_entries):
        name = reader.text()
        metadata[name] = reader.value(reader.number("I"))
    found = []
    for _ in range(num_tensors):
        name, rank = reader.text(), reader.number("I")
        shape = tuple(reader.number("Q") for _ in range(rank))[::-1]
        found.append((name, shape, reader.number("I"), reader.number("Q")))
    alignment = metadata.get("general.alignment", _ALIGNMENT)
    begin = -(-reader.at // alignment) * alignment
    return Gguf(
        metadata,
        {name: _tensor(data, begin + offset, kind, shape) for name, shape, kind, offset in found},
    )


def _tensor(data: bytes, at: int, kind: int, shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape))
    if kind == _F32:
        return np.frombuffer(data, np.float32, size, at).reshape(shape)
    if kind == _Q4_1:
        return _four_bits(data, at, size // _BLOCK).reshape(shape)
    if kind == _Q8_0:
        return _eight_bits(data, at, size // _BLOCK).reshape(shape)
    raise ValueError(f"a GGUF tensor of kind {kind}")


def _four_bits(data: bytes, at: int, num_blocks: int) -> np.ndarray:
    """Scale, minimum, then a nibble a weight: the low ones are the block's first half."""
    layout = np.dtype([("scale", "<f2"), ("least", "<f2"), ("nibbles", "u1", _BLOCK // 2)])
    blocks = np.frombuffer(data, layout, num_blocks, at)
    steps = np.concatenate((blocks["nibbles"] & 15, blocks["nibbles"] >> 4), axis=1).astype(np.float32)
    return steps * blocks["scale"].astype(np.float32)[:, None] + blocks["least"].astype(np.float32)[:, None]


def _eight_bits(data: bytes, at: int, num_blocks: int) -> np.ndarray:
    layout = np.dtype([("scale", "<f2"), ("steps", "i1", _BLOCK)])
    blocks = np.frombuffer(data, layout, num_blocks, at)
    return blocks["steps"].astype(np.float32) * blocks["scale"].astype(np.float32)[:, None]
