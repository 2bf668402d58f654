"""Auxiliary losses that pull what the towers return toward the language model's word embeddings.

Where a picture's patch shows a red circle, its token should resemble the embeddings of " red" and " circle";
where a sound says "seven", that of "7". The language model can then answer by copying, which it learns once
for all names, instead of learning every name from every tower anew.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tools.demo_model.draw import CHARACTERS, CLASSES, TINTS
from tools.demo_model.listen import LABELS, spelling
from tools.demo_model.rows import SoundAt
from tools.demo_model.sizes import CHUNK_TOKENS, LANGUAGE
from tools.demo_model.sounds import Sound
from tools.demo_model.tokens import encode, special
from tools.demo_model.words import DIGITS, SPOKEN

WORDS_FOR = {
    "paper": " background", "foreign": " cannot", "none": " single", "unknown": " tell",
    "silence": " nothing",
    "beep high": " beeps", "beep low": " beep", "tone high": " high", "tone low": " low",
    "beep middle": " count", "tone middle": " middle",
}  # fmt: skip
SCALE = LANGUAGE["hidden"] ** -0.5


class Placed(NamedTuple):
    """A sound and where its tokens are among the batch's."""

    sound: Sound
    at: SoundAt


def anchor(name: str) -> int:
    """The token whose embedding stands for a label."""
    if name == "blank":
        return special("<|AUDIO|>")
    if name in DIGITS:
        return encode(str(DIGITS.index(name)))[0]
    if name in SPOKEN:
        return encode(name)[0]
    return encode(WORDS_FOR.get(name, f" {name}"))[0]


def picture_anchors() -> tuple[Tensor, Tensor]:
    """The tokens that stand for `CLASSES` and for `TINTS`."""
    kinds = [encode(name if name in CHARACTERS else WORDS_FOR.get(name, f" {name}"))[0] for name in CLASSES]
    tints = [encode(WORDS_FOR.get(name, f" {name}"))[0] for name in TINTS]
    return torch.tensor(kinds), torch.tensor(tints)


@lru_cache
def sound_anchors() -> Tensor:
    return torch.tensor([anchor(name) for name in LABELS])


def shares(labels: Tensor, classes: int) -> Tensor:
    """(pictures, patches) labels to (pictures, groups, classes): how much of each group has each label."""
    wide = nn.functional.one_hot(labels.long().clamp(max=classes), classes + 1)[..., :classes]
    return wide.unflatten(1, (-1, 4)).float().mean(2)


def picture_loss(seen: Tensor, labels: Tensor, embedding: Tensor, anchors: tuple[Tensor, Tensor]) -> Tensor:
    """seen: (pictures, groups, size); labels: (pictures, patches, 2), 255 where there is none."""
    total = torch.zeros(())
    for which, tokens in enumerate(anchors):
        logits = seen @ embedding[tokens].T * SCALE
        target = shares(labels[..., which], len(tokens))
        if which == 0:
            target = target * torch.tensor([0.3] + [1.0] * (len(tokens) - 1))
        total = total - (target * logits.log_softmax(-1)).sum() / target.sum()
    return total


def sound_loss(heard: Tensor, placed: list[Placed], embedding: Tensor) -> Tensor:
    """CTC of the labels against the tokens of each sound. heard: (chunks, tokens, size)."""
    flat = (heard.flatten(0, 1) @ embedding[sound_anchors()].T * SCALE).log_softmax(-1)
    spans = [flat[p.at.slot * CHUNK_TOKENS :][: p.at.tokens] for p in placed]
    targets = [torch.tensor(spelling(p.sound)) for p in placed]
    return nn.functional.ctc_loss(
        nn.utils.rnn.pad_sequence(spans),
        torch.cat(targets),
        torch.tensor([len(span) for span in spans]),
        torch.tensor([len(target) for target in targets]),
        zero_infinity=True,
    )
