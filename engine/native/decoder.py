"""`FusedDecoder` on the C library: packs the weights once, then runs all layers in one call a step."""

import ctypes
import logging

import torch

from engine.attention.native import NativeAttention, NativeBackend
from engine.native.library import CDecoder, CLayer, CMatrix, CSight, CStep
from engine.native.packing import LANES, PackedMatrix
from models.decoder import Decoder, LayerWeights

logger = logging.getLogger(__name__)

MAX_ROWS = 32
"""Above this, oneDNN's products for many rows are faster than reading each weight once for few."""


class NotFusable(Exception):
    """This decoder has something that the C kernels don't do; the message names it."""


class NativeDecoder:
    """One decoder on one back end's pages. Holds packed copies of the weights; the originals serve long steps."""

    def __init__(self, decoder: Decoder, backend: NativeBackend) -> None:
        _check(decoder)
        config = decoder.config
        self._backend = backend
        self._kept: list[object] = []  # what C points to
        self._windows = tuple(dict.fromkeys(config.windows))
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
        )
        self._head = self._matrix(decoder.head)

    def accepts(self, num_rows: int, attention: object) -> bool:
        return (
            num_rows <= MAX_ROWS
            and isinstance(attention, NativeAttention)
            and attention.backend is self._backend
        )

    def run(
        self, hidden: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, attention: object
    ) -> torch.Tensor:
        assert isinstance(attention, NativeAttention)
        hidden, cos, sin = hidden.contiguous(), cos.float().contiguous(), sin.float().contiguous()
        output = torch.empty_like(hidden)
        sights = [attention.sight(window) for window in self._windows]
        step = CStep(
            len(hidden),
            len(sights),
            hidden.data_ptr(),
            output.data_ptr(),
            cos.data_ptr(),
            sin.data_ptr(),
            attention.step.slots.ctypes.data,
            (CSight * len(sights))(*(sight.struct for sight in sights)),
        )
        self._backend.library.run_decoder(self._struct, step)
        return output

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[n, hidden_size] -> float32 [n, vocab_size]."""
        return self._backend.library.multiply(self._head, hidden.contiguous())

    def _layer(self, index: int, weights: LayerWeights) -> CLayer:
        return CLayer(
            self._matrix(weights.qkv),
            self._matrix(weights.o),
            self._matrix(weights.gate_up, paired=True),
            self._matrix(weights.down),
            self._floats(weights.input_norm),
            self._floats(weights.post_norm),
            self._floats(weights.q_norm),
            self._floats(weights.k_norm),
            self._floats(weights.qkv_bias),
            self._floats(weights.o_bias),
            self._backend.keys[index].data_ptr(),
            self._backend.values[index].data_ptr(),
            self._windows.index(self._backend.spec.windows[index]),
        )

    def _matrix(self, weight: torch.Tensor, paired: bool = False) -> CMatrix:
        packed = PackedMatrix(weight, paired)
        self._kept.append(packed)
        return packed.struct

    def _floats(self, tensor: torch.Tensor | None) -> ctypes.c_void_p | None:
        if tensor is None:
            return None
        floats = tensor.float().contiguous()
        self._kept.append(floats)
        return ctypes.c_void_p(floats.data_ptr())


def install_fused(model: object, backend: NativeBackend) -> None:
    """Give the model's decoder, if it is one of ours, a `fused` that it can use; else the log says why not."""
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
