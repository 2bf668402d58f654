"""What a request does to its row of logits before a token is chosen: penalties, bias, bans and grammar."""

import numpy as np
import torch

from engine.messages import SamplingParams
from engine.request import Sequence, TokenMatcher


class UnusableLogits(ValueError):
    """Nothing can be chosen from this row; the message is for the request's owner. code: as in
    `messages.RequestFailed`."""

    def __init__(self, message: str, code: str = "invalid_request") -> None:
        super().__init__(message)
        self.code = code


def needs_adjustment(sequence: Sequence) -> bool:
    p = sequence.request.sampling
    return bool(
        sequence.matcher is not None
        or p.logit_bias
        or p.frequency_penalty
        or p.presence_penalty
        or p.repetition_penalty != 1.0
        or (p.stop_token_ids and sequence.num_output_tokens < p.min_tokens)
    )


def adjust(logits: torch.Tensor, sequence: Sequence) -> torch.Tensor:
    """A changed copy of one row [vocab]; what may not be chosen is -inf.

    UnusableLogits if the request's ids lie outside the vocabulary, its grammar fails, or nothing is left.
    """
    row = logits.clone()
    p = sequence.request.sampling
    _penalise(row, sequence, p)
    if p.logit_bias:
        ids = _checked(list(p.logit_bias), len(row))
        row[ids] += torch.tensor(list(p.logit_bias.values()), dtype=row.dtype, device=row.device)
    if p.stop_token_ids and sequence.num_output_tokens < p.min_tokens:
        row[_checked(list(p.stop_token_ids), len(row))] = float("-inf")
    if sequence.matcher is not None:
        row.masked_fill_(~_allowed(sequence.matcher, len(row)).to(row.device), float("-inf"))
    if not torch.isfinite(row.max()):
        raise UnusableLogits("no token may follow: bans, biases and grammar leave none")
    return row


def _penalise(row: torch.Tensor, sequence: Sequence, p: SamplingParams) -> None:
    """Repetition over prompt and answer, by factor (CTRL, arXiv 1909.05858); the others over the answer."""
    if p.repetition_penalty != 1.0:
        seen = _within(np.unique(np.asarray(sequence.tokens.ids, dtype=np.int64)), len(row)).to(row.device)
        values = row[seen]
        row[seen] = torch.where(values > 0, values / p.repetition_penalty, values * p.repetition_penalty)
    if (p.frequency_penalty or p.presence_penalty) and sequence.num_output_tokens:
        answer = np.asarray(sequence.tokens.ids[sequence.num_prompt_tokens :], dtype=np.int64)
        ids, counts = np.unique(answer, return_counts=True)
        penalties = torch.from_numpy(counts * p.frequency_penalty + p.presence_penalty)
        row[torch.from_numpy(ids).to(row.device)] -= penalties.to(row)


def _within(ids: np.ndarray, vocab_size: int) -> torch.Tensor:
    """Some checkpoints' placeholder ids lie past the logits: they can't be generated, so need no penalty."""
    return torch.from_numpy(ids[ids < vocab_size])


def _checked(ids: list[int], vocab_size: int) -> list[int]:
    for token_id in ids:
        if not 0 <= token_id < vocab_size:
            raise UnusableLogits(f"token id {token_id} is outside the vocabulary of {vocab_size}")
    return ids


def _allowed(matcher: TokenMatcher, vocab_size: int) -> torch.Tensor:
    """bool [vocab]: bit i of the grammar's 32-bit words allows token i; missing words allow nothing."""
    try:
        words = matcher.mask()
    except Exception as error:
        raise UnusableLogits(f"the grammar can't be followed: {error}", "invalid_grammar") from error
    bits = np.unpackbits(words.view(np.uint8), bitorder="little", count=min(vocab_size, 32 * len(words)))
    allowed = np.zeros(vocab_size, dtype=bool)
    allowed[: len(bits)] = bits
    return torch.from_numpy(allowed)
