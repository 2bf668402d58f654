"""`FusedDecoder` on the C library: a decoder's layers on one back end's pages.

Long steps too: its products are as fast as oneDNN's, and a row's result is the same bits whatever is computed
beside it, so how a prompt was cut into chunks and who shared its steps does not show, in bfloat16 either.
"""

import logging
from collections.abc import Sequence

import torch

from engine.attention.native import NativeAttention, NativeBackend
from engine.native.layers import NativeLayers, NotFusable, Turns
from engine.native.packing import NativeMatrix
from engine.native.tower import NativeTower
from models.decoder import Decoder
from models.families.qwen_vision import QwenVision
from models.interface import AddedRows

logger = logging.getLogger(__name__)


class NativeDecoder:
    """One decoder on one back end's pages. Puts packed matrices in the place of the decoder's own.

    NotFusable where the C kernels don't take it.
    """

    def __init__(self, decoder: Decoder, backend: NativeBackend) -> None:
        config, (rotary, *others) = decoder.config, set(decoder.rotary)
        if config.activation != "silu":
            raise NotFusable(f"the activation {config.activation!r}")
        if config.norms_after or config.norms_from_one:
            raise NotFusable("norms after attention, or with weights kept less 1")
        if others:
            raise NotFusable("rotary positions that differ between layers")
        self._backend = backend
        self._windows, self._last_window = tuple(dict.fromkeys(config.windows)), config.windows[-1]
        self._layers = NativeLayers(
            backend.library,
            backend.heads,
            decoder.layers,
            [self._windows.index(window) for window in config.windows],
            config.eps,
            Turns(rotary.frequencies, rotary.axis_of, rotary.scaling),
            decoder.final_norm,
        )
        self._layers.set_pages(backend.keys, backend.values)
        if isinstance(decoder.head, torch.Tensor):
            decoder.head = NativeMatrix(decoder.head, backend.library)
        assert isinstance(decoder.head, NativeMatrix)
        self._head = decoder.head

    def accepts(self, attention: object) -> bool:
        return isinstance(attention, NativeAttention) and attention.backend is self._backend

    def run(
        self,
        hidden: torch.Tensor,
        positions: torch.Tensor,
        attention: object,
        added: Sequence[AddedRows],
        read: torch.Tensor | None,
    ) -> torch.Tensor:
        assert isinstance(attention, NativeAttention)
        sights = [attention.sight(window) for window in self._windows]
        if read is not None:
            sights.append(attention.sight(self._last_window).of_rows(read.numpy()))
        structs = [sight.struct for sight in sights]
        return self._layers.run(hidden, positions, attention.step.slots, structs, added, read)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[n, hidden_size] -> float32 [n, vocab_size]."""
        return self._head.multiply(hidden)


def install_fused(model: object, backend: NativeBackend) -> None:
    """Give the decoder of the model and its vision tower, where they are ours, their `fused`.

    The log says why not."""
    decoder, tower = getattr(model, "decoder", None), getattr(model, "vision", None)
    try:
        if isinstance(decoder, Decoder):
            decoder.fused = NativeDecoder(decoder, backend)
    except NotFusable as error:
        logger.info("layers are not fused: the kernels don't do %s", error)
    try:
        if isinstance(tower, QwenVision) and tower.published:
            tower.fused = NativeTower(tower, backend.library)
    except NotFusable as error:
        logger.info("the vision tower is not fused: the kernels don't do %s", error)
