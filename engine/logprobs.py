"""Log-probabilities of the model's raw distribution: temperature 1, no penalties, whatever was drawn from."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from engine.messages import TokenLogprobs
from engine.transfer import fetched, sent

FLOOR = -9999.0
"""Stands for what JSON can't say: a probability of zero."""

_SPARE = 16
"""Taken beyond the wish, so that equal values at its edge come out in the order of their ids."""


def raw_logprobs(
    logits: torch.Tensor,
    wishes: Sequence[int | None],
    tokens: np.ndarray,
    greedy: np.ndarray,
    skipped: Mapping[int, object],
) -> dict[int, TokenLogprobs]:
    """By row, for rows of logits [n, vocab] whose wish (`SamplingParams.num_top_logprobs`) is not None.

    tokens: the chosen ids [n]. greedy: the arg max of each row, which leads its list even among equals.
    """
    rows = [row for row, wish in enumerate(wishes) if wish is not None and row not in skipped]
    if not rows:
        return {}
    distribution = logits[sent(np.array(rows), logits.device)].log_softmax(-1)
    chosen = distribution.gather(1, sent(tokens[rows], logits.device)[:, None])[:, 0]
    most = max(wishes[row] or 0 for row in rows)
    best = distribution.topk(min(most + _SPARE, distribution.shape[-1]) if most else 0)
    chosen, values, ids = fetched(chosen, best.values, best.indices)
    return {
        row: TokenLogprobs(
            max(float(chosen[i]), FLOOR), _ranked(values[i], ids[i], wishes[row] or 0, int(greedy[row]))
        )
        for i, row in enumerate(rows)
    }


def _ranked(values: np.ndarray, ids: np.ndarray, count: int, first: int) -> tuple[tuple[int, float], ...]:
    if not count:
        return ()
    order = sorted(range(len(ids)), key=lambda i: (-values[i], ids[i]))
    ranked = [(int(ids[i]), max(float(values[i]), FLOOR)) for i in order if ids[i] != first]
    return ((first, max(float(values.max()), FLOOR)), *ranked[: count - 1])
