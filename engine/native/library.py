"""The C library as Python sees it. Mirrors the structures of decoder.c, field by field."""

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, Structure, byref, c_double, c_float, c_int, c_int32, c_long, c_void_p
from pathlib import Path

import numpy as np
import torch

from engine.native.build import NativeUnavailable, build

_TYPES = {torch.float32: 0, torch.bfloat16: 1}
DTYPES = frozenset(_TYPES)
"""What weights, keys and values may be made of."""


class CMatrix(Structure):
    _fields_ = (("tiles", c_void_p), ("type", c_int32), ("num_outputs", c_int32), ("num_inputs", c_int32))


class CHeads(Structure):
    _fields_ = (
        ("num_heads", c_int32),
        ("num_kv_heads", c_int32),
        ("head_dim", c_int32),
        ("type", c_int32),
        ("scale", c_float),
    )


class CSight(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("tables", "table_starts", "first", "until")),
        ("num_rows", c_int32),
    )


class CLayer(Structure):
    _fields_ = (
        *((name, CMatrix) for name in ("qkv", "o", "gate_up", "down")),
        *((name, c_void_p) for name in ("input_norm", "post_norm", "q_norm", "k_norm")),
        *((name, c_void_p) for name in ("qkv_bias", "o_bias", "gate_up_bias", "down_bias")),
        ("keys", c_void_p),
        ("values", c_void_p),
        ("sight", c_int32),
    )


class CDecoder(Structure):
    _fields_ = (
        ("heads", CHeads),
        ("hidden_size", c_int32),
        ("intermediate_size", c_int32),
        ("num_layers", c_int32),
        ("eps", c_float),
        ("layers", POINTER(CLayer)),
        *((name, c_void_p) for name in ("final_norm", "frequencies", "axes")),
        ("rotary_scale", c_float),
    )


class CAdded(Structure):
    _fields_ = (
        *((name, c_int32) for name in ("layer", "first_row", "num_rows")),
        ("stride", c_long),
        ("values", c_void_p),
    )


class CStep(Structure):
    _fields_ = (
        ("num_rows", c_int32),
        ("num_sights", c_int32),
        *((name, c_void_p) for name in ("hidden", "output", "positions")),
        ("num_axes", c_int32),
        ("slots", c_void_p),
        ("sights", POINTER(CSight)),
        ("num_added", c_int32),
        ("added", POINTER(CAdded)),
        ("num_read", c_int32),
        ("read_sight", c_int32),
        ("read", c_void_p),
    )


class CDraw(Structure):
    _fields_ = (
        ("logits", c_void_p),
        *((name, c_double) for name in ("top_p", "min_p", "random")),
        ("temperature", c_float),
        ("top_k", c_int32),
    )


def type_code(dtype: torch.dtype) -> int:
    return _TYPES[dtype]


class Library:
    """The loaded library. MemoryError where a call finds none for its scratch.

    NativeUnavailable if it can't be built or loaded. machine: as in `build`.
    """

    def __init__(self, num_threads: int, machine: str = "native") -> None:
        self.num_threads = num_threads
        library = _load(build(machine))
        self._run_decoder = library.run_decoder
        self._run_decoder.argtypes = (POINTER(CDecoder), POINTER(CStep), c_int)
        self._multiply = library.multiply
        self._multiply.argtypes = (POINTER(CMatrix), c_void_p, c_int, c_void_p, c_int)
        self._attend_rows = library.attend_rows
        self._attend_rows.argtypes = (POINTER(CHeads), POINTER(CSight), *(c_void_p,) * 4, c_int)
        self._draw_rows = library.draw_rows
        self._draw_rows.argtypes = (POINTER(CDraw), c_int, c_long, c_void_p, c_int)
        self._write_rows = library.write_rows
        self._write_rows.argtypes = (POINTER(CHeads), c_int, *(c_void_p,) * 5)
        self._write_rows.restype = None

    def run_decoder(self, decoder: CDecoder, step: CStep) -> None:
        _check(self._run_decoder(byref(decoder), byref(step), self.num_threads))

    def multiply(self, matrix: CMatrix, x: torch.Tensor) -> torch.Tensor:
        """x [rows, in], contiguous, of the matrix's dtype -> float32 [rows, out]."""
        out = torch.empty(len(x), matrix.num_outputs, dtype=torch.float32)
        _check(self._multiply(byref(matrix), x.data_ptr(), len(x), out.data_ptr(), self.num_threads))
        return out

    def write_rows(
        self,
        heads: CHeads,
        slots: np.ndarray,
        k: torch.Tensor,
        v: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> None:
        """k, v float32 [rows, kv_heads, head_dim], contiguous, into a layer's pages at slots int64 [rows]."""
        pointers = (slots.ctypes.data, *(tensor.data_ptr() for tensor in (k, v, keys, values)))
        self._write_rows(byref(heads), len(k), *pointers)

    def attend_rows(
        self, heads: CHeads, sight: CSight, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        """q float32 [rows, heads, head_dim], contiguous; keys, values: a layer's pages. Returns the like."""
        out = torch.empty_like(q)
        pointers = (q.data_ptr(), keys.data_ptr(), values.data_ptr(), out.data_ptr())
        _check(self._attend_rows(byref(heads), byref(sight), *pointers, self.num_threads))
        return out

    def draw_rows(self, draws: Sequence[CDraw], vocab_size: int) -> np.ndarray:
        """Token ids int64 [n], one from each row of logits, float32 [vocab_size] and contiguous."""
        tokens = np.empty(len(draws), dtype=np.int64)
        array = (CDraw * len(draws))(*draws)
        _check(self._draw_rows(array, len(draws), vocab_size, tokens.ctypes.data, self.num_threads))
        return tokens


def _load(path: Path) -> ctypes.CDLL:
    """A cache may forbid execution, or be shared with a machine of other system libraries."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise NativeUnavailable(str(error)) from error


def _check(status: int) -> None:
    if status != 0:
        raise MemoryError("no memory for a step's scratch")
