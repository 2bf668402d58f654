"""Drawing a token from a row of logits under temperature, top-k, top-p and min-p.

All three limits are thresholds on the scaled logit, so tokens of equal probability stay or go together and no
order among them matters. The draw inverts the cumulative distribution of what is kept, in order of token id.
"""

import hashlib
import struct
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch

from engine.messages import SamplingParams
from engine.transfer import fetched, sent

COLDEST = 1e-6
"""Temperatures below leave nothing to chance among float32 logits, and would not survive the division: the
best token is taken."""
NUM_CANDIDATES = 256
"""The most likely tokens, looked at first. A nucleus that they don't cover is found by sorting the row."""


class Candidates(NamedTuple):
    """A row's most likely tokens. values: scaled logits minus their maximum, descending, float64; total: the
    sum of exp(values) over the whole vocabulary."""

    values: np.ndarray
    ids: np.ndarray
    total: float
    vocab_size: int

    @property
    def reach_everything(self) -> bool:
        """No token that can be chosen is missing."""
        return len(self.values) == self.vocab_size or self.values[-1] == -np.inf


def uniform(seed: int, choice: int, position: int) -> float:
    """In [0, 1), a pure function of its arguments: no state to save, so recomputing an answer repeats it."""
    counter = struct.pack("<QQQ", seed & (2**64 - 1), choice, position)
    return (int.from_bytes(hashlib.blake2b(counter, digest_size=8).digest(), "little") >> 11) * 2.0**-53


class Drawer(Protocol):
    """Draws tokens: `draw`, or a back end's own that gives the same."""

    def __call__(
        self, rows: Sequence[torch.Tensor], parameters: Sequence[SamplingParams], randoms: Sequence[float]
    ) -> np.ndarray:
        """Token ids int64 [n], one for each row of logits, float32 [vocab], -inf where forbidden.

        randoms: in [0, 1), one for each row. Temperatures are at least COLDEST.
        """
        ...


def draw(
    rows: Sequence[torch.Tensor], parameters: Sequence[SamplingParams], randoms: Sequence[float]
) -> np.ndarray:
    """`Drawer` in torch's operations, on any device."""
    logits, random = torch.stack(list(rows)), np.array(randoms)
    device = logits.device
    temperatures = sent(np.array([p.temperature for p in parameters], np.float32), device)
    scaled = (logits - logits.amax(-1, keepdim=True)) / temperatures[:, None]
    tokens = np.empty(len(parameters), dtype=np.int64)
    is_limited = np.array([_is_limited(p, logits.shape[-1]) for p in parameters])
    limited, unlimited = np.flatnonzero(is_limited), np.flatnonzero(~is_limited)
    if len(unlimited):
        tokens[unlimited] = _draw_from_all(scaled[sent(unlimited, device)], random[unlimited])
    if len(limited):
        some = scaled[sent(limited, device)]
        # The softmax of the best token is 1 / total; unlike a sum, softmax treats a row alike in any batch.
        totals = 1.0 / some.softmax(-1).amax(-1)
        top = some.topk(min(NUM_CANDIDATES, some.shape[-1]))
        totals, values, ids = fetched(totals, top.values, top.indices)
        values = values.astype(np.float64)
        for i, row in enumerate(limited.tolist()):
            candidates = Candidates(values[i], ids[i], float(totals[i]), some.shape[-1])
            tokens[row] = _draw_limited(scaled[row], candidates, parameters[row], randoms[row])
    return tokens


def _is_limited(p: SamplingParams, vocab_size: int) -> bool:
    return 0 < p.top_k < vocab_size or p.top_p < 1.0 or p.min_p > 0.0


def _draw_from_all(scaled: torch.Tensor, randoms: np.ndarray) -> np.ndarray:
    cumulative = scaled.exp().to(torch.float64).cumsum(-1)
    targets = sent(randoms, cumulative.device)[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, targets, right=True)[:, 0].cpu().numpy()


def _draw_limited(scaled: torch.Tensor, candidates: Candidates, p: SamplingParams, random: float) -> int:
    threshold, values, ids = _threshold(candidates, p), candidates.values, candidates.ids
    # A threshold as low as the last candidate may be shared by tokens that were not taken: look at all.
    if not candidates.reach_everything and (threshold is None or threshold <= values[-1]):
        row = scaled.cpu().numpy()
        values, ids = row.astype(np.float64), np.arange(len(row))
        # Values alone sort an order of magnitude faster than a top-k or values with their ids.
        everything = candidates._replace(values=np.sort(row)[::-1].astype(np.float64))
        threshold = _threshold(everything, p)
    kept = values > -np.inf
    if threshold is not None:
        kept &= values >= threshold
    order = np.argsort(ids[kept], kind="stable")
    cumulative = np.exp(values[kept][order]).cumsum()
    return int(ids[kept][order][np.searchsorted(cumulative, random * cumulative[-1], side="right")])


def _threshold(candidates: Candidates, p: SamplingParams) -> float | None:
    """The least scaled logit that is kept: by min-p, by top-k, and by top-p among what top-k keeps.

    None where these candidates don't reach far enough to tell.
    """
    values, total = candidates.values, candidates.total
    floor = np.log(p.min_p) if p.min_p > 0 else -np.inf
    if 0 < p.top_k < candidates.vocab_size:
        if p.top_k > len(values) and not candidates.reach_everything:
            return None
        kth = values[min(p.top_k, len(values)) - 1]
        values = values[values >= kth]
        total = np.exp(values).sum()
        floor = max(floor, kth)
    if p.top_p < 1.0:
        mass = np.exp(values).cumsum()
        last = int(np.searchsorted(mass, p.top_p * total))
        if last == len(mass) and not candidates.reach_everything:
            return None
        floor = max(floor, values[min(last, len(mass) - 1)])  # all of them may lack what sums are rounded by
    return float(floor)
