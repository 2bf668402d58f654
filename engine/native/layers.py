"""A stack of layers on the C library: its weights packed once, all layers of a step in one call.

Knows nothing of where keys and values lie, nor of what the rows are.
"""

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from engine.native.library import CAdded, CDecoder, CHeads, CLayer, CSight, CStep, Library
from engine.native.packing import LANES, NativeMatrix, in_pairs
from models.decoder import LayerWeights, Matrix
from models.interface import AddedRows


class NotFusable(Exception):
    """These layers have something that the C kernels don't do; the message names it."""


def require_whole_vectors(**sizes: int) -> None:
    """NotFusable unless all sizes are multiples of the vectors'."""
    for name, size in sizes.items():
        if size % LANES:
            raise NotFusable(f"a {name} of {size}, no multiple of {LANES}")


class Turns(NamedTuple):
    """Rotary positions: frequencies float32 [head_dim / 2], and which of a row's positions turns each."""

    frequencies: torch.Tensor
    axis_of: torch.Tensor
    scaling: float = 1.0


class NativeLayers:
    """layers: changed in place, packed matrices instead of tensors, so that each frees what it replaces.
    sights: which of a step's sights each layer has.

    NotFusable where the C kernels don't take them.
    """

    def __init__(
        self,
        library: Library,
        heads: CHeads,
        layers: list[LayerWeights],
        sights: Sequence[int],
        eps: float,
        turns: Turns,
        final_norm: torch.Tensor | None = None,
    ) -> None:
        width, inner = len(layers[0].input_norm), _inner_width(layers[0])
        require_whole_vectors(hidden_size=width, intermediate_size=inner, head_dim=heads.head_dim)
        self._library = library
        self._kept: list[object] = []  # what C points to
        for index, weights in enumerate(layers):
            layers[index] = self._packed(weights)
        self._layers = (CLayer * len(layers))(*map(self._layer, layers, sights))
        self._struct = CDecoder(
            heads,
            width,
            inner,
            len(layers),
            eps,
            self._layers,
            self._floats(final_norm),
            self._floats(turns.frequencies),
            self._integers(turns.axis_of),
            turns.scaling,
        )

    def set_pages(self, keys: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
        """Of each layer, as `NativeBackend` has them. Whoever calls keeps them alive."""
        for layer, key_pages, value_pages in zip(self._layers, keys, values, strict=True):
            layer.keys, layer.values = key_pages.data_ptr(), value_pages.data_ptr()

    def run(
        self,
        hidden: torch.Tensor,
        positions: torch.Tensor,
        slots: np.ndarray,
        sights: Sequence[CSight],
        added: Sequence[AddedRows] = (),
        read: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """hidden [rows, hidden_size], positions int64 [axes, rows] -> hidden after the final norm.

        slots: int64 [rows], where the rows' keys and values go. read: int64 [n], ascending, the rows wanted;
        then the last of `sights` is what they see in the last layer, and nothing may be added after it."""
        hidden, positions = hidden.contiguous(), positions.contiguous()
        added = [rows._replace(values=_with_whole_rows(rows.values)) for rows in added]
        output = torch.empty_like(hidden if read is None else hidden[: len(read)])
        step = CStep(
            len(hidden),
            len(sights),
            hidden.data_ptr(),
            output.data_ptr(),
            positions.data_ptr(),
            len(positions),
            slots.ctypes.data,
            (CSight * len(sights))(*sights),
            len(added),
            (CAdded * len(added))(*(_struct(rows) for rows in added)),
            len(output),
            len(sights) - 1,
            None if read is None else read.data_ptr(),
        )
        self._library.run_decoder(self._struct, step)
        return output

    def _packed(self, layer: LayerWeights) -> LayerWeights:
        return layer._replace(
            qkv=self._matrix(layer.qkv),
            o=self._matrix(layer.o),
            gate_up=self._matrix(layer.gate_up, paired=True),
            down=self._matrix(layer.down),
        )

    def _layer(self, weights: LayerWeights, sight: int) -> CLayer:
        matrices = (weights.qkv, weights.o, weights.gate_up, weights.down)
        vectors = (weights.input_norm, weights.post_norm, weights.q_norm, weights.k_norm)
        gate_up_bias = None if weights.gate_up_bias is None else in_pairs(weights.gate_up_bias)
        biases = (weights.qkv_bias, weights.o_bias, gate_up_bias, weights.down_bias)
        self._kept.append(matrices)
        return CLayer(
            *(matrix.struct for matrix in matrices if isinstance(matrix, NativeMatrix)),
            *(self._floats(vector) for vector in (*vectors, *biases)),
            sight=sight,
        )

    def _matrix(self, weight: Matrix, paired: bool = False) -> NativeMatrix:
        if isinstance(weight, torch.Tensor):
            return NativeMatrix(weight, self._library, paired)
        assert isinstance(weight, NativeMatrix)
        return weight

    def _floats(self, tensor: torch.Tensor | None) -> ctypes.c_void_p | None:
        if tensor is None:
            return None
        floats = tensor.float().contiguous()
        self._kept.append(floats)
        return ctypes.c_void_p(floats.data_ptr())

    def _integers(self, tensor: torch.Tensor) -> ctypes.c_void_p:
        integers = tensor.int().contiguous()
        self._kept.append(integers)
        return ctypes.c_void_p(integers.data_ptr())


def _inner_width(layer: LayerWeights) -> int:
    down = layer.down
    return down.struct.num_inputs if isinstance(down, NativeMatrix) else down.shape[1]  # type: ignore[union-attr]


def _with_whole_rows(values: torch.Tensor) -> torch.Tensor:
    return values if values.stride(1) == 1 else values.contiguous()


def _struct(rows: AddedRows) -> CAdded:
    values = rows.values
    return CAdded(rows.layer, rows.start, len(values), values.stride(0), values.data_ptr())
