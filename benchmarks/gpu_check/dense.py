"""Torch's own attention on keys and values that lie together: what paged attention is measured against."""

from collections.abc import Callable

import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.gpu_check.clock import Clock, Limits
from benchmarks.gpu_check.plan import Heads, Shape

DTYPE = torch.bfloat16


class Dense:
    """Random keys and values [batch, kv_heads, tokens, head_dim] of some layers, queries of one step."""

    def __init__(self, heads: Heads, shape: Shape, layers: int, device: torch.device) -> None:
        self.heads, self.shape, self.layers, self.device = heads, shape, layers, device
        generator = torch.Generator(device).manual_seed(0)

        def random(*sizes: int) -> torch.Tensor:
            return torch.randn(sizes, generator=generator, device=device, dtype=DTYPE)

        self.tokens = shape.cached + shape.new
        held = (shape.batch, heads.num_kv_heads, self.tokens, heads.head_dim)
        self.keys, self.values = ([random(*held) for _ in range(layers)] for _ in range(2))
        self.queries = random(shape.batch, heads.num_heads, shape.new, heads.head_dim)

    def rows(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, heads, tokens, head_dim] -> [batch * tokens, heads, head_dim], sequence after sequence."""
        return x.transpose(1, 2).flatten(0, 1).contiguous()

    def attend(self, layer: int) -> torch.Tensor:
        """[batch, heads, new, head_dim]."""
        shape, kv = self.shape, (self.keys[layer], self.values[layer])
        if shape.new == 1:
            return scaled_dot_product_attention(self.queries, *kv, enable_gqa=True)
        if not shape.cached:
            return scaled_dot_product_attention(self.queries, *kv, is_causal=True, enable_gqa=True)
        mask = causal_lower_right(shape.new, self.tokens)
        return scaled_dot_product_attention(self.queries, *kv, attn_mask=mask, enable_gqa=True)

    def attend_grouped(self, layer: int) -> torch.Tensor:
        """The same for a decode step: the heads of a group are rows of its key head."""
        grouped = self.queries.view(self.shape.batch, self.heads.num_kv_heads, -1, self.heads.head_dim)
        attended = scaled_dot_product_attention(grouped, self.keys[layer], self.values[layer])
        return attended.view(self.queries.shape)

    def device_s(self, clock: Clock) -> float:
        """Of one layer, by whichever way is faster."""
        ways = [self.attend, self.attend_grouped] if self.shape.new == 1 else [self.attend]
        return min(device_s(clock, self.every_layer(way)) for way in ways) / self.layers

    def every_layer(self, attend: Callable[[int], torch.Tensor]) -> Callable[[], None]:
        """Layers take turns, so that a cache of the device doesn't hold one."""

        def call() -> None:
            for layer in range(self.layers):
                attend(layer)

        return call

    def limit_s(self, limits: Limits) -> float:
        """Of one layer: to read keys and values once, or to do the multiplications."""
        heads, (batch, cached, new) = self.heads, self.shape
        num_bytes = 2 * batch * self.tokens * heads.num_kv_heads * heads.head_dim * DTYPE.itemsize
        seen = batch * (new * cached + new * (new + 1) // 2)
        flop = 4 * heads.num_heads * heads.head_dim * seen
        return max(num_bytes / limits.bytes_per_s, flop / limits.flop_per_s)


def device_s(clock: Clock, call: Callable[[], object]) -> float:
    """Without the host's launches, where they can be left out."""
    seconds = clock.seconds(call)
    return clock.replayed_s(call) or seconds
