"""How large a tile each kernel works on: a table read in Python, so that nothing is timed at start.

Chosen by cross-compiling with triton 3.8, without a GPU: no spilled registers on sm_80 and sm_90 (but for 24
bytes in float32 of 64 heads on one key), and shared memory within the 99 KiB of the smallest cards, up to
MAX_GROUP and MAX_HEAD_DIM. With triton 3.6, there and on sm_89, sm_100 and sm_120, a few bytes are spilled in
float32. Not by speed, which nobody has measured.
"""

from typing import NamedTuple

import torch

MAX_GROUP = 64
"""Query heads for a key head."""

MAX_HEAD_DIM = 256

PART_KEYS = 256
"""Keys that one program attends where a row's keys are shared out; some times as many where the parts of a
tile alone would exceed the workspace. Never by the rows beside it, so that a row's result doesn't depend on
them."""

WORKSPACE_BYTES = 64 << 20
"""For the parts of one launch; a step with more of them takes several launches. Thousands of programs fit in
it, more than any GPU runs at once."""

FIXED_ITEMS = 1024
"""Work items of a launch that has to take every step (see `fixed_plan`). Of a step with more, a quarter of a
million keys, reading them takes longer than launching its kernels one by one."""

FIXED_PROGRAMS = 2048
"""Programs of such a launch, all key heads together: some times what a large GPU runs at once."""

MIN_DOT = 16
"""The least rows and columns of a matrix product on tensor cores; triton 3.6 takes no less elsewhere."""

TAIL_ROWS = 64
"""Up to so many rows a chunk with more than PART_KEYS keys has them shared out too: the few new tokens behind
a long cached prefix would keep only a handful of programs busy."""


class Tile(NamedTuple):
    """queries: rows of the step in a tile. heads: places for the query heads of a key head, a power of two.

    keys: in one turn of the loop. parts: whether each tile's keys are shared out and joined afterwards.
    strides: whether a program may attend several work items, one after another: that takes some registers."""

    queries: int
    heads: int
    keys: int
    num_warps: int
    num_stages: int
    parts: bool
    strides: bool = False


def power_of_two(at_least: int) -> int:
    return 1 << (at_least - 1).bit_length()


def head_width(head_dim: int) -> int:
    """Columns of a tile: triton's ranges are powers of two."""
    return max(power_of_two(head_dim), MIN_DOT)


def decode_tile(group: int, head_dim: int, dtype: torch.dtype) -> Tile:
    """One row. Few query rows, many keys: bound by reading pages, so several loads are kept in flight."""
    heads = max(power_of_two(group), MIN_DOT)
    if dtype == torch.float32:
        return Tile(1, heads, *_float32_turns(heads, head_dim), True, True)
    width = head_width(head_dim)
    crowded = _is_crowded(heads, width)
    # An address that comes from a block table costs the pipeline a stage or two: five give two buffers.
    turns = 32 if width > 128 else 64, 8 if crowded and width > 128 else 4, 4 if crowded else 5
    return Tile(1, heads, *turns, True, True)


def tail_tile(group: int, head_dim: int, dtype: torch.dtype) -> Tile:
    """A few rows that see many keys."""
    return _rows_tile(64, group, head_dim, dtype)._replace(parts=True)


def prefill_tile(group: int, head_dim: int, dtype: torch.dtype) -> Tile:
    """Every other chunk."""
    return _rows_tile(128, group, head_dim, dtype)


def _rows_tile(rows: int, group: int, head_dim: int, dtype: torch.dtype) -> Tile:
    """rows: of the matrix product, query rows times heads."""
    width, heads = head_width(head_dim), power_of_two(group)
    if dtype == torch.float32:
        rows, turns = 32 if width <= 128 else 16, _float32_turns(heads, head_dim)
    elif width > 128:
        rows, turns = 64, (32, 8, 3)
    else:
        turns = (64 if width < 128 else 32, rows // 16, 3)
    rows = max(rows, MIN_DOT, heads)
    return Tile(rows // heads, heads, *turns, False)


def _float32_turns(heads: int, head_dim: int) -> tuple[int, int, int]:
    """keys, num_warps, num_stages. No tensor cores: accumulator and operands lie in registers, so turns are
    short."""
    width = head_width(head_dim)
    if _is_crowded(heads, width):
        return MIN_DOT, 16, 1
    return MIN_DOT, 4 if width < 128 else 8, 2


def _is_crowded(heads: int, width: int) -> bool:
    """Whether the queries of one row alone leave little room for keys and values."""
    return heads > 32 and width >= 128
