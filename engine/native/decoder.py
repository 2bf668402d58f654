"""`FusedDecoder` on the C library: the weights packed once, all layers of a step in one call.

Long steps too: its products are as fast as oneDNN's, and a row's result is the same bits whatever is computed
beside it, so how a prompt was cut into chunks and who shared its steps does not show, in bfloat16 either.
"""

import ctypes
import logging
from collections.abc import Sequence

import torch

from engine.attention.native import NativeAttention, NativeBackend
from engine.native.library import CAdded, CDecoder, CLayer, CSight, CStep
from engine.native.packing import LANES, NativeMatrix
from models.decoder import Decoder, LayerWeights, Matrix
from models.interface import AddedRows

logger = logging.getLogger(__name__)


class NotFusable(Exception):
    """This decoder has something that the C kernels don't do; the message names it."""


class NativeDecoder:
    """One decoder on one back end's pages. Puts packed matrices in the place of the decoder's own."""

    def __init__(self, decoder: Decoder, backend: NativeBackend) -> None:
        _check(decoder)
        config = decoder.config
        self._backend = backend
        self._kept: list[object] = []  # what C points to
        self._windows = tuple(dict.fromkeys(config.windows))
        for index, layer in enumerate(decoder.layers):  # one by one: each frees what it replaces
            decoder.layers[index] = self._packed(layer)
        decoder.head = self._head = self._matrix(decoder.head)
        layers = (CLayer * config.num_layers)(
            *(self._layer(index, weights) for index, weights in enumerate(decoder.layers))
        )
        self._struct = CDecoder(
            backend.heads,
            config.hidden_size,
            config.intermediate_size,
            config.num_layers,
            config.eps,
            layers,
            self._floats(decoder.final_norm),
            self._floats(decoder.rotary.frequencies),
            self._integers(decoder.rotary.axis_of),
            decoder.rotary.scaling,
        )

    def accepts(self, attention: object) -> bool:
        return isinstance(attention, NativeAttention) and attention.backend is self._backend

    def run(
        self, hidden: torch.Tensor, positions: torch.Tensor, attention: object, added: Sequence[AddedRows]
    ) -> torch.Tensor:
        assert isinstance(attention, NativeAttention)
        hidden, positions = hidden.contiguous(), positions.contiguous()
        added = [rows._replace(values=_with_whole_rows(rows.values)) for rows in added]
        output = torch.empty_like(hidden)
        sights = [attention.sight(window) for window in self._windows]
        step = CStep(
            len(hidden),
            len(sights),
            hidden.data_ptr(),
            output.data_ptr(),
            positions.data_ptr(),
            len(positions),
            attention.step.slots.ctypes.data,
            (CSight * len(sights))(*(sight.struct for sight in sights)),
            len(added),
            (CAdded * len(added))(*(_struct(rows) for rows in added)),
        )
        self._backend.library.run_decoder(self._struct, step)
        return output

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[n, hidden_size] -> float32 [n, vocab_size]."""
        return self._head.multiply(hidden)

    def _packed(self, layer: LayerWeights) -> LayerWeights:
        return layer._replace(
            qkv=self._matrix(layer.qkv),
            o=self._matrix(layer.o),
            gate_up=self._matrix(layer.gate_up, paired=True),
            down=self._matrix(layer.down),
        )

    def _layer(self, index: int, weights: LayerWeights) -> CLayer:
        matrices = (weights.qkv, weights.o, weights.gate_up, weights.down)
        vectors = (weights.input_norm, weights.post_norm, weights.q_norm, weights.k_norm)
        biases = (weights.qkv_bias, weights.o_bias)
        self._kept.append(matrices)
        return CLayer(
            *(matrix.struct for matrix in matrices if isinstance(matrix, NativeMatrix)),
            *(self._floats(vector) for vector in (*vectors, *biases)),
            self._backend.keys[index].data_ptr(),
            self._backend.values[index].data_ptr(),
            self._windows.index(self._backend.spec.windows[index]),
        )

    def _matrix(self, weight: Matrix, paired: bool = False) -> NativeMatrix:
        if isinstance(weight, torch.Tensor):
            return NativeMatrix(weight, self._backend.library, paired)
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


def _with_whole_rows(values: torch.Tensor) -> torch.Tensor:
    return values if values.stride(1) == 1 else values.contiguous()


def _struct(rows: AddedRows) -> CAdded:
    values = rows.values
    return CAdded(rows.layer, rows.start, len(values), values.stride(0), values.data_ptr())


def install_fused(model: object, backend: NativeBackend) -> None:
    """Give the decoder of the model, if it is one of ours, its `fused`; else the log says why not."""
    decoder = getattr(model, "decoder", None)
    if not isinstance(decoder, Decoder):
        return
    try:
        decoder.fused = NativeDecoder(decoder, backend)
    except NotFusable as error:
        logger.info("layers are not fused: the kernels don't do %s", error)


def _check(decoder: Decoder) -> None:
    config = decoder.config
    if config.activation != "silu":
        raise NotFusable(f"the activation {config.activation!r}")
    if config.mlp_bias:
        raise NotFusable("a bias in the MLP")
    for name in ("hidden_size", "intermediate_size", "head_dim"):
        if getattr(config, name) % LANES:
            raise NotFusable(f"a {name} of {getattr(config, name)}, no multiple of {LANES}")
