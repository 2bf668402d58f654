"""CTranslate2's `model.bin`: a version, the model's name, then every variable with its shape and bytes.

Read from the format's own writer, `ctranslate2.specs.model_spec`, binary version 6.
"""

import struct
from typing import Any

import numpy as np

_FLOATS = {0: np.float32, 4: np.float16}
_VERSION = 6


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values

    def text(self) -> str:
        (length,) = self.take("<H")
        return self.take(f"<{length}s")[0].rstrip(b"\0").decode()


def read_variables(data: bytes) -> dict[str, np.ndarray]:
    """Every floating-point variable by name, as float32. ValueError for another version of the format."""
    reader, variables = _Reader(data), {}
    (version,) = reader.take("<I")
    if version != _VERSION:
        raise ValueError(f"a CTranslate2 file of version {version}, not {_VERSION}")
    reader.text()
    reader.take("<I")
    for _ in range(reader.take("<I")[0]):
        name, (rank,) = reader.text(), reader.take("<B")
        shape = reader.take(f"<{rank}I")
        kind, size = reader.take("<BI")
        if kind in _FLOATS:
            dtype = np.dtype(_FLOATS[kind])
            flat = np.frombuffer(data, dtype, size // dtype.itemsize, reader.at)
            variables[name] = flat.reshape(shape).astype(np.float32)
        reader.at += size
    return variables
