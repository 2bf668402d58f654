"""A scheduled step on a model: encode media, forward, sample. Decides nothing about what runs when."""

from collections.abc import Sequence as Seq

import numpy as np
import torch

from engine.allocator import keep_freed_memory
from engine.attention.base import AttentionBackend, Chunk
from engine.attention.choice import choose_backend
from engine.attention.native import NativeBackend
from engine.batch import BatchAssembler, HostBatch
from engine.config import EngineConfig
from engine.decode_graphs import DecodeGraphs
from engine.draw import Drawer, draw
from engine.native.decoder import NativeDecoder, install_fused
from engine.native.draw import NativeDraw
from engine.sampler import sample
from engine.step import EncodeItem, RowFault, SampledToken, StepRow
from engine.threads import num_step_threads
from engine.transfer import sent
from kvcache.encodings import EncodingId
from kvcache.match import BlockCopy
from kvcache.pages import EncodingStore, KVPages
from models.interface import EncoderInput, ServedModel
from models.processing.base import MediaLayout


class Runner:
    """`StepRunner` on a loaded model. Owns pages and encodings; the scheduler says which are whose."""

    def __init__(self, model: ServedModel, attention: AttentionBackend, pages: KVPages) -> None:
        self.model, self.attention, self.pages = model, attention, pages
        self._draw: Drawer = NativeDraw(attention.library) if isinstance(attention, NativeBackend) else draw
        self._encodings = EncodingStore()
        # Where a row sees all before it in the last layer, what was not finite in its chunk reaches it.
        self._last_rows_tell = model.attention.windows[-1] is None
        self._assembler = BatchAssembler(self._encodings.get)
        self.graphs: DecodeGraphs | None = None

    @property
    def is_row_invariant(self) -> bool:
        """A row's result is the same bits whatever is computed beside it, and however its prompt was cut."""
        return isinstance(getattr(getattr(self.model, "decoder", None), "fused", None), NativeDecoder)

    @torch.inference_mode()
    def copy_blocks(self, copies: Seq[BlockCopy]) -> None:
        if copies:
            self.pages.copy(copies)

    @torch.inference_mode()
    def encode(self, item: EncodeItem) -> None:
        """By itself and whole, so that an encoding never depends on what was encoded beside it. ValueError
        where the encoder returns what no row may read."""
        layout = item.layout
        # Arrays that arrived as raw frames are read-only, which torch can't express: those are copied.
        arrays = {
            name: torch.from_numpy(np.require(array, requirements=["C", "W"])).to(self.model.device)
            for name, array in item.arrays.items()
        }
        (encoded,) = self.model.encode(item.kind, [EncoderInput(arrays, layout)])
        expected = (layout.num_tokens, self.model.encoding_width)
        if tuple(encoded.shape) != expected:
            raise ValueError(f"the encoder returned {tuple(encoded.shape)} instead of {expected}")
        if not encoded.isfinite().all():
            raise ValueError("the encoder returned values that are not finite")
        self._encodings.put(item.encoding, encoded)

    @torch.inference_mode()
    def execute(self, rows: Seq[StepRow]) -> dict[int, SampledToken | RowFault]:
        chunks = [Chunk(r.start, r.end, r.block_table, r.sequence.request.indivisible) for r in rows]
        batch = self._assembler.assemble(rows)
        ends = np.cumsum([row.end - row.start for row in rows])
        hidden = self.graphs.forward(chunks, batch) if self.graphs else None
        if hidden is None:
            hidden, ends = self._launched(chunks, batch, ends)
        faults = _faults(hidden, rows, ends)
        sampling = [index for index, row in enumerate(rows) if row.samples]
        if not sampling:
            return faults
        if len(sampling) < len(hidden):
            hidden = hidden[sent(ends[sampling] - 1, hidden.device)]
        sequences = [rows[index].sequence for index in sampling]
        tokens = sample(self.model.logits(hidden), sequences, self._draw)
        return {s.number: token for s, token in zip(sequences, tokens, strict=True)} | faults

    def _launched(
        self, chunks: Seq[Chunk], batch: HostBatch, ends: np.ndarray
    ) -> tuple[torch.Tensor, np.ndarray]:
        """Hidden states, and where each chunk's rows end in them: only its last one is there if that says it
        all. ends: of each chunk's rows in the batch."""
        planned, device = self.attention.plan(chunks), self.model.device
        on_device = batch.on(device)
        if len(chunks) < ends[-1] and self._last_rows_tell:
            on_device = on_device._replace(read=sent(ends - 1, device))
            ends = np.arange(len(chunks)) + 1
        return self.model.forward(on_device, planned), ends

    def drop_encodings(self, encodings: Seq[EncodingId]) -> None:
        for encoding in encodings:
            self._encodings.drop(encoding)

    def encoding_size_bytes(self, layout: MediaLayout) -> int:
        return layout.num_tokens * self.model.encoding_width * self.model.dtype.itemsize


def _faults(hidden: torch.Tensor, rows: Seq[StepRow], ends: np.ndarray) -> dict[int, SampledToken | RowFault]:
    """Chunks of prompts that are not finite somewhere: nobody may find their keys and values. Not all have
    logits that would show it; a row of one token has. ends: of each chunk's rows in `hidden`."""
    if all(row.samples and row.end - row.start == 1 for row in rows):
        return {}
    starts = np.array([0, *ends[:-1]], dtype=np.int64)
    finite = np.logical_and.reduceat(hidden.isfinite().all(-1).cpu().numpy(), starts)
    fault = RowFault("the model returned hidden states that are not finite")
    return {row.sequence.number: fault for row, good in zip(rows, finite, strict=True) if not good}


def build_runner(model: ServedModel, config: EngineConfig, num_blocks: int) -> Runner:
    """Pages of `num_blocks` blocks and one that is nobody's (see `decode_graphs`), the back end asked for,
    threads and allocator set for the whole process.

    ValueError if the settings don't fit the model or the machine.
    """
    keep_freed_memory()
    num_threads = num_step_threads(config.num_threads)
    if model.device.type == "cpu":
        torch.set_num_threads(num_threads)
    spec = model.attention
    pages = KVPages(
        spec.num_layers, num_blocks + 1, spec.num_kv_heads, spec.head_dim, model.dtype, model.device
    )
    layers = [pages.layer(index) for index in range(spec.num_layers)]
    keys, values = [layer[0] for layer in layers], [layer[1] for layer in layers]
    attention = choose_backend(config.attention_backend, spec, keys, values, num_threads)
    if isinstance(attention, NativeBackend):
        install_fused(model, attention)
    return Runner(model, attention, pages)
