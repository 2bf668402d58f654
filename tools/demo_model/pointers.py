"""Auxiliary losses that teach the language model to look, a layer at a time: where each part of a picture is,
then which thing a word names, then where the next word is to be read.

From answers alone it learns this slowly or not at all: the tower's tokens do not hold where they are (its
positions are relative), and which of several things a word means has to be found before it can be told.
"""

import torch
from torch import Tensor, nn

from tools.demo_model.aims import NOWHERE, Aim
from tools.demo_model.layers import RMSNorm
from tools.demo_model.palette import COLOURS
from tools.demo_model.scene import SHAPES
from tools.demo_model.sizes import LANGUAGE

SIDE = 11  # the longest side of a picture, in merged tokens
MOST = 7  # counts of things, from none
FIELDS = {
    "row": SIDE, "column": SIDE,
    "named_row": SIDE, "named_column": SIDE, "named_shape": len(SHAPES), "named_colour": len(COLOURS),
    "named_count": MOST,
    "next_row": SIDE, "next_column": SIDE,
}  # fmt: skip


def layer_of(field: str) -> int:
    """The layer after which the field has to be known."""
    return {"named": 1, "next": 2}.get(field.partition("_")[0], 0)


class Pointers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        size = LANGUAGE["hidden"]
        self.norms = nn.ModuleList(RMSNorm(size) for _ in range(3))
        self.head = nn.ModuleDict({name: nn.Linear(size, count) for name, count in FIELDS.items()})

    def forward(self, layers: list[Tensor], aims: Tensor) -> Tensor:
        """The sum of the fields' cross-entropies. layers: what each layer returned, (rows, tokens, size);
        aims: (rows, tokens, fields of `Aim`).
        """
        normed = [norm(layer.float()).flatten(0, 1) for norm, layer in zip(self.norms, layers, strict=False)]
        total = torch.zeros(())
        for i, name in enumerate(Aim._fields):
            logits, target = self.head[name](normed[layer_of(name)]).float(), aims[..., i].flatten()
            losses = nn.functional.cross_entropy(logits, target, ignore_index=NOWHERE, reduction="sum")
            total = total + losses / (target != NOWHERE).sum().clamp(min=1)
        return total
