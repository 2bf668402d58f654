"""Whether a back end that has just been made agrees with a plain one, on this machine, before it serves."""

from collections.abc import Callable, Sequence

import torch

from engine.attention.base import AttentionBackend, Chunk
from kvcache.sequence import BLOCK_SIZE
from models.interface import AttentionSpec

Maker = Callable[[AttentionSpec, Sequence[torch.Tensor], Sequence[torch.Tensor]], AttentionBackend]

TOLERANCES = {torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 4e-2}
"""Largest difference on values of about 1: a few units in the last place of the format. In float32 more,
for a different order of sums over some hundred keys."""

NUM_BLOCKS = 60
CHUNKS = (
    Chunk(299, 300, range(0, 19)),  # a decode row, past what one program reads
    Chunk(20, 21, (30, 19)),
    Chunk(290, 310, range(20, 40), ((295, 304),)),  # a few rows behind a long prefix
    Chunk(3, 140, range(40, 49), ((5, 20),)),
    Chunk(0, 17, (49, 50)),
)


class Disagreement(Exception):
    """The two back ends give different numbers."""


def check_agreement(
    candidate: Maker, plain: Maker, spec: AttentionSpec, dtype: torch.dtype, device: torch.device
) -> None:
    """A small step through both, with the heads of `spec`, without and with a window. Disagreement, or
    whatever the candidate raises.

    On pages of its own: takes 2 * 2 * 60 blocks of one layer for its time.
    """
    spec = spec._replace(windows=(None, 24))
    results = [_attend(maker, spec, dtype, device) for maker in (plain, candidate)]
    for expected, actual in zip(*results, strict=True):
        difference = (expected.float() - actual.float()).abs().max().item()
        if not difference <= TOLERANCES[dtype]:  # not finite is not less either
            raise Disagreement(f"results differ by {difference:.2g}, allowed are {TOLERANCES[dtype]:.2g}")


def _attend(
    maker: Maker, spec: AttentionSpec, dtype: torch.dtype, device: torch.device
) -> list[torch.Tensor]:
    """Results of each layer, then its keys and values."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(device, dtype)

    shape = (NUM_BLOCKS, BLOCK_SIZE, spec.num_kv_heads, spec.head_dim)
    keys, values = ([random(*shape) for _ in spec.windows] for _ in range(2))
    planned = maker(spec, keys, values).plan(CHUNKS)
    rows = sum(chunk.end - chunk.start for chunk in CHUNKS)
    new = (rows, spec.num_kv_heads, spec.head_dim)
    outputs = [
        planned.attend(layer, random(rows, spec.num_heads, spec.head_dim), random(*new), random(*new))
        for layer in range(spec.num_layers)
    ]
    return [*outputs, *keys, *values]
