"""Records a model's decode steps at the start, and keeps them only if they compute what launching does."""

import logging
from collections.abc import Callable
from collections.abc import Sequence as Seq

import numpy as np
import torch

from engine.attention.base import AttentionBackend, Chunk, FixedBackend
from engine.attention.self_check import TOLERANCES, Disagreement
from engine.batch import HostBatch
from engine.decode_graphs import DecodeGraphs, DecodeStep, Padded, Recorder, Recording, row_counts
from engine.transfer import sent
from kvcache.pages import KVPages
from kvcache.sequence import BLOCK_SIZE
from models.interface import ServedModel

logger = logging.getLogger(__name__)

LENGTHS = (300, 1, 17, 16, 40)
"""Of sequences of a check, in turn: on both sides of a block's border, and past what one program reads."""


@torch.inference_mode()
def recorded_steps(
    model: ServedModel, backend: AttentionBackend, pages: KVPages, most_rows: int, record: Recorder
) -> DecodeGraphs | None:
    """Steps of up to `most_rows` rows, the largest first, whose memory the others use again. None, and a line
    in the log, where one can't be recorded or gives other numbers: then all are launched.

    pages: in which nobody has anything yet; their last block is nobody's.
    """
    try:
        if not isinstance(backend, FixedBackend):
            raise ValueError(f"the back end {backend.name} plans each step anew")
        counts = row_counts(min(most_rows, pages.num_blocks - 1))
        recorded = {
            num_rows: recorded_step(model, backend, pages, num_rows, record) for num_rows in reversed(counts)
        }
    except Exception as error:
        # A driver, a device and a model's own code speak here: whatever they raise, launching serves.
        logger.warning("CUDA graphs: none, because %s: %s", type(error).__name__, error)
        return None
    logger.info("CUDA graphs: decode steps of up to %d rows, %d sizes", counts[-1], len(counts))
    return DecodeGraphs(recorded)


@torch.inference_mode()
def recorded_step(
    model: ServedModel, backend: FixedBackend, pages: KVPages, num_rows: int, record: Recorder
) -> tuple[DecodeStep, Recording]:
    """Recorded with rows of nobody, checked with others. Raises what recording does, or Disagreement."""
    step = DecodeStep(model, backend, num_rows, pages.num_blocks - 1)
    _load(step, step.padded([], np.empty(0, np.int64), np.empty((step.num_axes, 0), np.int64)))
    recording = record(step.run)
    _check(model, backend, pages, step, recording)
    return step, recording


def _check(
    model: ServedModel, backend: FixedBackend, pages: KVPages, step: DecodeStep, recording: Recording
) -> None:
    """Disagreement unless a replay gives the hidden states, keys and values that launching gives, for other
    sequences than were recorded. Leaves zeros in the blocks that it uses."""
    room = min(pages.num_blocks - 1, step.num_rows + max(LENGTHS) // BLOCK_SIZE)
    used = pages.pages[:, :, :room]
    padded = _some_rows(step, room, model.vocab_size)

    def replayed() -> torch.Tensor:
        _load(step, padded)
        recording.replay()
        return recording.output

    def launched() -> torch.Tensor:
        batch = HostBatch(padded.ids, padded.positions, []).on(model.device)
        return model.forward(batch, backend.plan(padded.chunks))

    def outcome(forward: Callable[[], torch.Tensor]) -> list[torch.Tensor]:
        used.normal_(generator=torch.Generator(model.device).manual_seed(0))
        return [forward(), *_written(pages, padded.chunks)]

    for one, other in zip(outcome(launched), outcome(replayed), strict=True):
        _compare(one.float(), other.float(), TOLERANCES[model.dtype])
    used.zero_()


def _load(step: DecodeStep, padded: Padded) -> None:
    if not step.load(padded):
        raise Disagreement(f"there is no room for the keys of {step.num_rows} rows")


def _written(pages: KVPages, chunks: Seq[Chunk]) -> torch.Tensor:
    """[layers, 2, rows, kv_heads, head_dim]: what each row wrote. A copy of whole blocks would be many times
    as large, for which a full card has no room."""
    device = pages.pages.device
    blocks = sent(np.array([chunk.block_table[-1] for chunk in chunks]), device)
    return pages.pages[:, :, blocks, sent(np.array([chunk.start for chunk in chunks]) % BLOCK_SIZE, device)]


def _some_rows(step: DecodeStep, room: int, vocab_size: int) -> Padded:
    """All rows but one, if there are several. Sequences share blocks, but for the last one of each."""
    rows = range(max(1, step.num_rows - 1))
    ends = np.array([min(LENGTHS[row % len(LENGTHS)], room * BLOCK_SIZE) for row in rows])
    tables = [
        [*((7 * row + block) % room for block in range((end - 1) // BLOCK_SIZE)), row]
        for row, end in zip(rows, ends, strict=True)
    ]
    chunks = [Chunk(int(end) - 1, int(end), table) for end, table in zip(ends, tables, strict=True)]
    ids = np.arange(len(rows)) * 37 % vocab_size
    return step.padded(chunks, ids, np.tile(ends - 1, (step.num_axes, 1)))


def _compare(expected: torch.Tensor, actual: torch.Tensor, tolerance: float) -> None:
    difference = (expected - actual).abs().max().item()
    allowed = tolerance * max(1.0, expected.abs().max().item())
    if not difference <= allowed:  # not finite is not less either
        raise Disagreement(f"a replay differs by {difference:.2g}, allowed are {allowed:.2g}")
