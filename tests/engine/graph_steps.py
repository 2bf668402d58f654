"""Steps of recorded decode graphs beside the same steps launched, on whatever device the runner is."""

import numpy as np
import torch

from engine.attention.base import Chunk
from engine.batch import HostBatch
from engine.decode_graphs import DecodeGraphs
from engine.runner import Runner

NUM_BLOCKS = 14
STEPS = ((16, 47, 1), (17, 48, 2), (70,))
"""Lengths of the sequences of each step: over borders of blocks, in several parts, fewer than recorded."""


def some_step(runner: Runner, lengths: tuple[int, ...], seed: int) -> tuple[list[Chunk], HostBatch]:
    """Sequences of these lengths, each with its last token to compute, in blocks of their own."""
    rng = np.random.default_rng(seed)
    free, chunks = rng.permutation(NUM_BLOCKS).tolist(), []
    for length in lengths:
        chunks.append(Chunk(length - 1, length, [free.pop() for _ in range(-(-length // 16))]))
    num_axes = runner.model.processing.positions(1, (), ()).ids.shape[0]
    positions = np.array(lengths) - 1 + rng.integers(0, 9, (num_axes, len(lengths)))
    return chunks, HostBatch(rng.integers(3, 200, len(lengths)), positions, [])


@torch.inference_mode()
def check_replays(runner: Runner, graphs: DecodeGraphs, tolerance: float) -> None:
    """Equal hidden states, and equal keys and values but for the block that is nobody's."""
    pages, device = runner.pages.pages, runner.model.device
    pages.normal_(generator=torch.Generator(device).manual_seed(5))
    for seed, lengths in enumerate(STEPS):
        chunks, batch = some_step(runner, lengths, seed)
        before = pages.clone()
        found = graphs.forward(chunks, batch)
        assert found is not None
        found, written = found.clone(), pages.clone()
        pages.copy_(before)
        expected = runner.model.forward(batch.on(device), runner.attention.plan(chunks))
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(written[:, :, :-1], pages[:, :, :-1], rtol=tolerance, atol=tolerance)
        # Only the places of the step's tokens have changed.
        changed = (written != before).flatten(4).any(-1).any(0).any(0)
        slots = {(chunk.block_table[-1], chunk.start % 16) for chunk in chunks}
        assert {(b, s) for b, s in changed.nonzero().tolist() if b < NUM_BLOCKS} == slots
