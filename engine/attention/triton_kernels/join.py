"""Joins what several programs made of one row's keys, each part weighed by the sum behind it."""

import torch
import triton
import triton.language as tl

from engine.attention.triton_kernels.dialect import launch
from engine.attention.triton_kernels.tiles import head_width
from models.interface import AttentionSpec

JOIN_FIELDS = 4
BLOCK_PARTS = 16


@triton.jit
def join_parts(
    parts,  # float32 [part rows, HEADS, HEAD_DIM]
    weights,  # float32 [part rows, HEADS], log2
    out,  # [rows, HEADS, HEAD_DIM]
    joins,  # int32 [joined rows, FIELDS]: the row, its first part row, the number of parts
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    STEP: tl.constexpr,  # part rows from one part of a row to its next
    BLOCK_P: tl.constexpr,
    BLOCK_D: tl.constexpr,
    FIELDS: tl.constexpr,
):
    item = joins + tl.program_id(0) * FIELDS
    head = tl.program_id(1)
    row = tl.load(item).to(tl.int64)
    first_part = tl.load(item + 1).to(tl.int64)
    num_parts = tl.load(item + 2)
    d = tl.arange(0, BLOCK_D)
    within = d < HEAD_DIM

    top = tl.full([1], float("-inf"), tl.float32)
    total = tl.zeros([1], tl.float32)
    mixed = tl.zeros([BLOCK_D], tl.float32)
    for start in range(0, num_parts, BLOCK_P):
        index = start + tl.arange(0, BLOCK_P)
        there = index < num_parts
        place = (first_part + index * STEP) * HEADS + head
        weight = tl.load(weights + place, mask=there, other=float("-inf"))
        part = tl.load(
            parts + place[:, None] * HEAD_DIM + d[None, :], mask=there[:, None] & within[None, :], other=0.0
        )
        new_top = tl.maximum(top, tl.max(weight, 0))
        base = tl.where(new_top == float("-inf"), 0.0, new_top)
        shares = tl.exp2(weight - base)
        decay = tl.exp2(top - base)
        total = total * decay + tl.sum(shares, 0)
        mixed = mixed * decay + tl.sum(part * shares[:, None], 0)
        top = new_top
    out_row = out + (row * HEADS + head) * HEAD_DIM
    tl.store(out_row + d, (mixed / total).to(out.dtype.element_ty), mask=within)


def constants(spec: AttentionSpec, step: int) -> dict[str, int]:
    """What the kernel is compiled for."""
    return {
        "HEADS": spec.num_heads,
        "HEAD_DIM": spec.head_dim,
        "STEP": step,
        "BLOCK_P": BLOCK_PARTS,
        "BLOCK_D": head_width(spec.head_dim),
        "FIELDS": JOIN_FIELDS,
    }


def join(
    spec: AttentionSpec,
    step: int,
    parts: torch.Tensor,
    weights: torch.Tensor,
    out: torch.Tensor,
    joins: torch.Tensor,
) -> None:
    """A program for each item of `joins` and query head. step: query rows of the tiles behind the parts."""
    grid = joins.shape[0], spec.num_heads
    launch(join_parts, grid, parts, weights, out, joins, **constants(spec, step))
