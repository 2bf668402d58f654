"""Attention of encoders: every row sees every row of its own run. Knows no pages and no causality."""

from functools import cache

import torch
import torch.nn.functional as F

Runs = list[tuple[int, int]]
"""Consecutive stretches of rows that attend within themselves: (how many, rows in each)."""

_SCORES_AT_ONCE = 1 << 22
"""8 MiB: so many stay in the last cache between the two products."""


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """q [batch, heads, rows, dim], k and v [batch, heads, keys, dim] -> [batch, heads, rows, dim].

    On CPUs that multiply bfloat16 but not whole tiles of it, torch's own kernel widens everything to float32;
    there two products with rounded scores between them, as in the models' own eager code, take half the time.
    """
    if q.dtype != torch.bfloat16 or q.device.type != "cpu" or not _multiplies_bfloat16():
        return F.scaled_dot_product_attention(q, k, v)
    batch, heads, rows, dim = q.shape
    q, keys = q * dim**-0.5, k.transpose(-1, -2)
    out = torch.empty_like(q)
    size = max(1, _SCORES_AT_ONCE // (batch * heads * k.shape[-2]))
    for start in range(0, rows, size):
        tile = slice(start, start + size)
        torch.matmul(torch.softmax(q[..., tile, :] @ keys, -1), v, out=out[..., tile, :])
    return out


def attend_in_runs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, runs: Runs) -> torch.Tensor:
    """[heads, rows, dim] each -> [rows, width]: attention within runs."""
    outs, start = [], 0
    for count, length in runs:
        rows = slice(start, start + count * length)
        a, b, c = (x[:, rows].unflatten(1, (count, length)).transpose(0, 1) for x in (q, k, v))
        outs.append(attend(a, b, c).transpose(1, 2).reshape(count * length, -1))
        start = rows.stop
    return outs[0] if len(outs) == 1 else torch.cat(outs)


@cache
def _multiplies_bfloat16() -> bool:
    """AVX-512's dot products of bfloat16, without AMX's tiles (where torch's kernel uses them)."""
    return torch.cpu._is_avx512_bf16_supported() and not torch.cpu._is_amx_tile_supported()
