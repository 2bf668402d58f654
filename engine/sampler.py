"""Logits to tokens and log-probabilities. Knows sequences and their sampling parameters, no model.

Nothing here lets one row look at another: a row's token depends on its own logits,
its parameters and (seed, choice, output position), which is all the randomness there is.
"""

from collections.abc import Container
from collections.abc import Sequence as Seq

import numpy as np
import torch

from engine.draw import COLDEST, Drawer, draw, uniform
from engine.logits import UnusableLogits, adjust, needs_adjustment
from engine.logprobs import raw_logprobs
from engine.request import Sequence
from engine.step import RowFault, SampledToken
from engine.transfer import fetched


def sample(
    logits: torch.Tensor, sequences: Seq[Sequence], drawer: Drawer = draw
) -> list[SampledToken | RowFault]:
    """One token for each row of logits, float32 [n, vocab], row i being sequence i's."""
    best_values, ids = _best(logits)
    faults = {
        int(row): RowFault("the model returned logits that are not finite")
        for row in np.flatnonzero(~np.isfinite(best_values))
    }
    adjusted: dict[int, torch.Tensor] = {}
    for row, sequence in enumerate(sequences):
        if row not in faults and needs_adjustment(sequence):
            try:
                adjusted[row] = adjust(logits[row], sequence)
            except UnusableLogits as error:
                faults[row] = RowFault(str(error), error.code)
    tokens = _choose(logits, adjusted, sequences, ids, faults, drawer)
    logprobs = raw_logprobs(
        logits, [s.request.sampling.num_top_logprobs for s in sequences], tokens, ids, faults
    )
    return [
        faults[row] if row in faults else SampledToken(int(tokens[row]), logprobs.get(row))
        for row in range(len(sequences))
    ]


def _best(logits: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Each row's largest value and its id. NaN wins a maximum, so one pass finds what is broken too."""
    if logits.device.type == "cpu":  # where numpy is ten times as fast as torch
        table = logits.numpy()
        ids = table.argmax(-1)
        return table[np.arange(len(table)), ids], ids
    values, places = fetched(*logits.max(dim=-1))
    return values, places


def _choose(
    logits: torch.Tensor,
    adjusted: dict[int, torch.Tensor],
    sequences: Seq[Sequence],
    greedy: np.ndarray,
    faults: Container[int],
    drawer: Drawer,
) -> np.ndarray:
    """Token ids int64 [n]; a faulty row's is meaningless."""
    tokens = greedy.copy()
    random_rows = []
    for row, sequence in enumerate(sequences):
        if row in faults:
            continue
        if sequence.request.sampling.temperature >= COLDEST:
            random_rows.append(row)
        elif row in adjusted:
            tokens[row] = int(adjusted[row].argmax())
    if random_rows:
        chosen = [adjusted.get(row, logits[row]) for row in random_rows]
        parameters = [sequences[row].request.sampling for row in random_rows]
        randoms = [
            uniform(p.seed, sequences[row].choice, sequences[row].num_output_tokens)
            for row, p in zip(random_rows, parameters, strict=True)
        ]
        tokens[random_rows] = drawer(chosen, parameters, randoms)
    return tokens
