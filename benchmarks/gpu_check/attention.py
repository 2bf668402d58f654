"""Each attention back end that there is on the device, beside torch's own on dense keys and beside the limit.

Pages are shuffled, as in use. Times are of one call of one layer.
"""

from collections.abc import Callable

import torch

from benchmarks.gpu_check.clock import Clock, Limits, launch_us, limits
from benchmarks.gpu_check.dense import DTYPE, Dense
from benchmarks.gpu_check.plan import Heads
from benchmarks.gpu_check.record import Record
from benchmarks.gpu_check.sections import Work
from engine.attention.base import AttentionBackend, Chunk
from engine.attention.choice import NAMES, choose_backend
from kvcache.pages import KVPages
from kvcache.sequence import BLOCK_SIZE
from models.interface import AttentionSpec

FILLED_AT_ONCE = 512
NOT_THERE = {"cuda": ("auto", "native"), "cpu": ("auto", "triton")}


@torch.inference_mode()
def measure(work: Work, record: Record) -> None:
    plan, clock = work.plan, Clock(torch.device(work.device), work.plan.cell_s)
    best = limits(clock, plan)
    record.add(**best._asdict(), launch_us=launch_us(clock))
    names = [name for name in NAMES if name not in NOT_THERE[work.device]]
    for heads in plan.heads:
        for shape in plan.shapes:
            title = {"heads": "/".join(map(str, heads)), "shape": shape.title}
            if not record.time_left_s:
                record.row("cells", **title, error="no time left")
                continue
            dense = Dense(heads, shape, plan.layers, clock.device)
            peer_s = dense.device_s(clock)
            for name in names:
                record.row("cells", **title, backend=name, **_cell(dense, name, clock, best, peer_s))


def _cell(dense: Dense, name: str, clock: Clock, best: Limits, peer_s: float) -> dict:
    """Milliseconds, as launched and as a graph; limit and peer as parts of the shorter of the two."""
    try:
        attend = paged(dense, name)
        expected = dense.rows(dense.attend(0)).float()
        difference = (attend(0).float() - expected).norm() / expected.norm()
        every = dense.every_layer(attend)
        launched_s = clock.seconds(every) / dense.layers
        replayed_s = (clock.replayed_s(every) or float("nan")) / dense.layers
    except (RuntimeError, ValueError) as error:  # no such back end, or no memory for it: the others go on
        return {"error": f"{type(error).__name__}: {error}"[:500]}
    ours_s = min(launched_s, replayed_s) if replayed_s == replayed_s else launched_s
    return {
        "launched_ms": launched_s * 1e3,
        "graph_ms": replayed_s * 1e3,
        "peer_ms": peer_s * 1e3,
        "of_limit": dense.limit_s(best) / ours_s,
        "to_peer": peer_s / ours_s,
        "difference": difference.item(),
    }


def paged(dense: Dense, name: str) -> Callable[[int], torch.Tensor]:
    """attend(layer) by the back end of this name, on pages that hold in layer 0 what `dense` holds."""
    shape, device = dense.shape, dense.device
    num_blocks = -(-dense.tokens // BLOCK_SIZE)
    pages = KVPages(
        dense.layers, shape.batch * num_blocks, dense.heads.num_kv_heads, dense.heads.head_dim, DTYPE, device
    )
    pages.pages.normal_()
    spec = _spec(dense.heads, dense.layers)
    keys, values = ([pages.layer(layer)[part] for layer in range(dense.layers)] for part in range(2))
    backend = choose_backend(name, spec, keys, values, num_threads=1)
    order = torch.randperm(shape.batch * num_blocks, generator=torch.Generator().manual_seed(0))
    tables = order.view(shape.batch, num_blocks).tolist()
    _fill(backend, dense, tables)
    step = backend.plan([Chunk(shape.cached, dense.tokens, table) for table in tables])
    new = slice(shape.cached, dense.tokens)
    q, k, v = (dense.rows(x) for x in (dense.queries, dense.keys[0][:, :, new], dense.values[0][:, :, new]))
    return lambda layer: step.attend(layer, q, k, v)


def _fill(backend: AttentionBackend, dense: Dense, tables: list[list[int]]) -> None:
    """What is cached gets into layer 0 through the back end, which may keep it in an order of its own."""
    for start in range(0, dense.shape.cached, FILLED_AT_ONCE):
        end = min(start + FILLED_AT_ONCE, dense.shape.cached)
        for index, table in enumerate(tables):
            k, v = (x[0][index, :, start:end].transpose(0, 1) for x in (dense.keys, dense.values))
            q = k.repeat_interleave(dense.heads.num_heads // dense.heads.num_kv_heads, dim=1)
            backend.plan([Chunk(start, end, table)]).attend(0, q, k.contiguous(), v.contiguous())


def _spec(heads: Heads, layers: int) -> AttentionSpec:
    return AttentionSpec(*heads, scale=heads.head_dim**-0.5, windows=(None,) * layers)
