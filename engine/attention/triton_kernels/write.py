"""Puts a step's keys and values at their slots."""

import torch
import triton
import triton.language as tl

from engine.attention.triton_kernels.dialect import launch
from engine.attention.triton_kernels.tiles import power_of_two


@triton.jit
def write_rows(
    new_keys,  # [rows, SIZE], any distance between rows
    new_values,
    keys,  # [slots, SIZE]
    values,
    slots,  # int32 [rows]
    key_stride,
    value_stride,
    SIZE: tl.constexpr,  # kv_heads * head_dim
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    # 64 bits: all pages of a layer can have more elements than 32 bits count.
    slot = tl.load(slots + row).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    key = tl.load(new_keys + row * key_stride + at, mask=inside)
    value = tl.load(new_values + row * value_stride + at, mask=inside)
    tl.store(keys + slot * SIZE + at, key, mask=inside)
    tl.store(values + slot * SIZE + at, value, mask=inside)


def write(
    k: torch.Tensor, v: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, slots: torch.Tensor
) -> None:
    """k, v [rows, kv_heads, head_dim], each row in one piece; pages [num_blocks, 16, kv_heads, head_dim]."""
    size = k.shape[1] * k.shape[2]
    arguments = k, v, keys, values, slots, k.stride(0), v.stride(0)
    launch(write_rows, (k.shape[0],), *arguments, SIZE=size, BLOCK=power_of_two(size))
