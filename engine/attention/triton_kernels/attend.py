"""Attention of tiles of query rows over pages.

A tile is a few neighbouring rows of one sequence, with all query heads of one key head: a decode step's row
is a tile of one. What each row sees comes as a range of keys, so causal rows, windows and bidirectional spans
are one kernel. Keys are walked in turns that begin at multiples of BLOCK_N, whatever the tile begins with:
masked keys add exact zeros, so a row's result doesn't depend on the rows that share its tile.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from engine.attention.triton_kernels.dialect import INTERPRETED, launch, product
from engine.attention.triton_kernels.tiles import Tile, head_width
from kvcache.sequence import BLOCK_SIZE
from models.interface import AttentionSpec

LOG2_E = 1.4426950408889634
WORK_FIELDS = 8


@triton.jit
def attend_tiles(
    q,  # [rows, HEADS * HEAD_DIM], any distance between rows
    keys,  # [num_blocks, PAGE, KV_HEADS, HEAD_DIM]
    values,
    out,  # [rows, HEADS, HEAD_DIM], or with PARTS float32 [work items * BLOCK_Q, HEADS, HEAD_DIM]
    weights,  # with PARTS float32 [work items * BLOCK_Q, HEADS]: log2 of the sum behind each part
    tables,  # int32: block tables, one behind the other
    sight,  # int32 [rows, 2]: the first key a row sees, and the one behind its last
    work,  # int32 [work items, WORK]: first row, rows, begin of the table, first key, key behind the last
    num_items,  # int32 [1], those of `work` that there are; read with STRIDES only
    q_stride,
    scale,  # times log2(e): powers of two are what the hardware has
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PAGE: tl.constexpr,
    WORK: tl.constexpr,
    PARTS: tl.constexpr,
    STRIDES: tl.constexpr,  # as many programs as there are, not one for each item
    INTERPRETED: tl.constexpr,
):
    # The heads of an item are neighbours, since their keys are; programs without an item come last.
    kv_head = tl.program_id(0) % KV_HEADS
    first = tl.program_id(0) // KV_HEADS
    if STRIDES:
        for index in range(first, tl.load(num_items), tl.num_programs(0) // KV_HEADS):
            _attend_item(
                index, kv_head, q, keys, values, out, weights, tables, sight, work, q_stride, scale,
                HEADS, KV_HEADS, HEAD_DIM, BLOCK_Q, BLOCK_H, BLOCK_N, BLOCK_D, PAGE, WORK, PARTS, INTERPRETED,
            )  # fmt: skip
    else:
        _attend_item(
            first, kv_head, q, keys, values, out, weights, tables, sight, work, q_stride, scale,
            HEADS, KV_HEADS, HEAD_DIM, BLOCK_Q, BLOCK_H, BLOCK_N, BLOCK_D, PAGE, WORK, PARTS, INTERPRETED,
        )  # fmt: skip


@triton.jit
def _attend_item(
    index,
    kv_head,
    q,
    keys,
    values,
    out,
    weights,
    tables,
    sight,
    work,
    q_stride,
    scale,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PAGE: tl.constexpr,
    WORK: tl.constexpr,
    PARTS: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    GROUP: tl.constexpr = HEADS // KV_HEADS
    item = work + index * WORK
    first_row = tl.load(item)
    num_rows = tl.load(item + 1)
    table = tables + tl.load(item + 2)
    begin = tl.load(item + 3)
    end = tl.load(item + 4)

    m = tl.arange(0, BLOCK_Q * BLOCK_H)
    d = tl.arange(0, BLOCK_D)
    row, head = m // BLOCK_H, m % BLOCK_H
    real = (row < num_rows) & (head < GROUP)
    query_row = (first_row + row).to(tl.int64)
    head += kv_head * GROUP
    within = d < HEAD_DIM
    places = query_row[:, None] * q_stride + head[:, None] * HEAD_DIM + d[None, :]
    queries = tl.load(q + places, mask=real[:, None] & within[None, :], other=0.0)
    first = tl.load(sight + query_row * 2, mask=real, other=0)
    until = tl.load(sight + query_row * 2 + 1, mask=real, other=0)

    top = tl.full([BLOCK_Q * BLOCK_H], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_Q * BLOCK_H], tl.float32)
    mixed = tl.zeros([BLOCK_Q * BLOCK_H, BLOCK_D], tl.float32)
    for start in range(begin // BLOCK_N * BLOCK_N, end, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        # Outside of [begin, end) a page may hold another sequence's leavings, NaN among them.
        held = (n >= begin) & (n < end)
        block = tl.load(table + n // PAGE, mask=held, other=0).to(tl.int64)
        slot = (block * PAGE + n % PAGE) * KV_HEADS + kv_head
        key = tl.load(
            keys + slot[None, :] * HEAD_DIM + d[:, None], mask=within[:, None] & held[None, :], other=0.0
        )
        value = tl.load(
            values + slot[:, None] * HEAD_DIM + d[None, :], mask=held[:, None] & within[None, :], other=0.0
        )
        seen = (n[None, :] >= first[:, None]) & (n[None, :] < until[:, None]) & held[None, :]
        scores = tl.where(seen, product(queries, key, INTERPRETED) * scale, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        base = tl.where(new_top == float("-inf"), 0.0, new_top)  # a row that has seen nothing so far
        shares = tl.exp2(scores - base[:, None])
        decay = tl.exp2(top - base)
        total = total * decay + tl.sum(shares, 1)
        if not INTERPRETED:
            shares = shares.to(value.dtype)
        mixed = mixed * decay[:, None] + product(shares, value, INTERPRETED)
        top = new_top

    if PARTS:
        # A row may see nothing of this part: then its weight stays that of nothing.
        total = tl.where(total == 0.0, 1.0, total)
        part_row = tl.cast(index, tl.int64) * BLOCK_Q + row
        tl.store(weights + part_row * HEADS + head, top + tl.log2(total), mask=real)
        places = (part_row * HEADS + head)[:, None] * HEAD_DIM + d[None, :]
    else:
        total = tl.where(real, total, 1.0)
        places = (query_row * HEADS + head)[:, None] * HEAD_DIM + d[None, :]
    mixed = mixed / total[:, None]
    tl.store(out + places, mixed.to(out.dtype.element_ty), mask=real[:, None] & within[None, :])


def constants(spec: AttentionSpec, tile: Tile) -> dict[str, int | bool]:
    """What the kernel is compiled for."""
    return {
        "HEADS": spec.num_heads,
        "KV_HEADS": spec.num_kv_heads,
        "HEAD_DIM": spec.head_dim,
        "BLOCK_Q": tile.queries,
        "BLOCK_H": tile.heads,
        "BLOCK_N": tile.keys,
        "BLOCK_D": head_width(spec.head_dim),
        "PAGE": BLOCK_SIZE,
        "WORK": WORK_FIELDS,
        "PARTS": tile.parts,
        "STRIDES": tile.strides,
        "INTERPRETED": INTERPRETED,
    }


class Items(NamedTuple):
    """What a launch works on. work, num_items: see the kernel. num_programs: for each key head; fewer than
    there are places in `work` only where the tile strides."""

    work: torch.Tensor
    num_items: torch.Tensor
    num_programs: int


def attend(
    spec: AttentionSpec,
    tile: Tile,
    q: torch.Tensor,
    pages: tuple[torch.Tensor, torch.Tensor],
    out: torch.Tensor,
    weights: torch.Tensor,
    tables: torch.Tensor,
    sight: torch.Tensor,
    items: Items,
) -> None:
    """out and weights: see the kernel."""
    launch(
        attend_tiles,
        (items.num_programs * spec.num_kv_heads,),
        q,
        *pages,
        out,
        weights,
        tables,
        sight,
        items.work,
        items.num_items,
        q.stride(0),
        spec.scale * LOG2_E,
        **constants(spec, tile),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )
