"""The vision tower, on padded batches; tensors are named as in published Qwen2.5-Omni checkpoints."""

import torch
from torch import Tensor, nn

from tools.demo_model.layers import GatedMLP, RMSNorm, attend, initialise, join_heads, rotate, split_heads
from tools.demo_model.sizes import LANGUAGE, MAX_PATCHES, VISION


def rotary_table(grid: tuple[int, int]) -> Tensor:
    """(2, MAX_PATCHES, head size): cosines and sines for a grid of patches, in 2 x 2 groups, zero-padded."""
    head = VISION["hidden"] // VISION["heads"]
    inverse = 10_000.0 ** -(torch.arange(0, head // 2, 2) / (head // 2))
    rows, columns = torch.meshgrid(torch.arange(grid[0]), torch.arange(grid[1]), indexing="ij")

    def grouped(x: Tensor) -> Tensor:
        return x.reshape(grid[0] // 2, 2, grid[1] // 2, 2).transpose(1, 2).flatten()

    angles = torch.cat([grouped(axis)[:, None] * inverse for axis in (rows, columns)], -1).repeat(1, 2)
    table = torch.zeros(2, MAX_PATCHES, head)
    table[:, : len(angles)] = torch.stack((angles.cos(), angles.sin()))
    return table


class VisionAttention(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.proj = (nn.Linear(size, size) for _ in range(4))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, bias: Tensor) -> Tensor:
        q, k, v = (split_heads(f(x), self.heads) for f in (self.q, self.k, self.v))
        return self.proj(join_heads(attend(rotate(q, cos, sin), rotate(k, cos, sin), v, bias)))


class VisionBlock(nn.Module):
    def __init__(self, size: int, heads: int, inner: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(size), RMSNorm(size)
        self.attn = VisionAttention(size, heads)
        self.mlp = GatedMLP(size, inner, bias=True)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, bias: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x), cos, sin, bias)
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    """A linear map of the patch; stored as the 3-D convolution over two equal frames that checkpoints
    hold.
    """

    def __init__(self, size: int, patch: int, temporal: int) -> None:
        super().__init__()
        self.proj = nn.Conv3d(3, size, (temporal, patch, patch), bias=False)

    def forward(self, patches: Tensor) -> Tensor:
        return patches @ self.proj.weight.sum(2).flatten(1).T.to(patches.dtype)


class Merger(nn.Module):
    def __init__(self, size: int, group: int, out: int) -> None:
        super().__init__()
        self.group = group
        self.ln_q = RMSNorm(size)
        self.mlp = nn.Sequential(
            nn.Linear(size * group, size * group), nn.GELU(), nn.Linear(size * group, out)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.ln_q(x).unflatten(1, (-1, self.group)).flatten(2))


class VisionTower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        size, heads = VISION["hidden"], VISION["heads"]
        self.patch_embed = PatchEmbed(size, VISION["patch"], VISION["temporal"])
        self.blocks = nn.ModuleList(VisionBlock(size, heads, VISION["inner"]) for _ in range(VISION["depth"]))
        self.merger = Merger(size, VISION["merge"] ** 2, LANGUAGE["hidden"])
        initialise(self, VISION["depth"])

    def forward(self, patches: Tensor, rotary: Tensor, lengths: Tensor) -> Tensor:
        """patches: (pictures, patches, values) in [-1, 1]; rotary: (pictures, 2, patches, head); lengths:
        patches each.

        Returns (pictures, patches / 4, language size); places beyond a picture's length mean nothing.
        """
        x = self.patch_embed(patches)
        cos, sin = (rotary[:, i, None].to(x.dtype) for i in (0, 1))
        hidden = torch.arange(patches.shape[1]) >= lengths[:, None]
        bias = torch.zeros(hidden.shape).masked_fill(hidden, -1e4)[:, None, None].to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin, bias)
        return self.merger(x)
