"""What was asked (`EngineRequest`, frozen) and where each answer stands (`Sequence`, mutable, private to the
engine)."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from engine.messages import Grammar, MediaItem, SamplingParams
from kvcache.sequence import TokenSequence
from kvcache.spans import MediaSpan


class TokenMatcher(Protocol):
    """Which tokens a grammar allows next, for one answer."""

    def mask(self) -> np.ndarray:
        """uint32 words, bit t % 32 of word t // 32 set where token t may come next; tokens past the end may
        not."""
        ...

    def accept(self, token_id: int) -> bool:
        """Move past a sampled token. False when the grammar doesn't allow it."""
        ...

    @property
    def finished(self) -> bool:
        """Nothing more may follow."""
        ...


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One admitted request: checked against context, pool and encoder budget, so it can be finished."""

    request_id: str
    namespace: bytes
    prompt_ids: tuple[int, ...]
    spans: tuple[MediaSpan, ...]
    media: dict[bytes, MediaItem]
    positions: np.ndarray
    """int64 [axes, prompt tokens]."""
    next_position: int
    """Rotary position of the first generated token, equal on all axes."""
    sampling: SamplingParams
    num_choices: int
    grammar: Grammar | None
    indivisible: tuple[tuple[int, int], ...]
    """Token ranges of bidirectional spans: never split across steps, never hit in part."""
    arrival: int
    """Order of arrival; the oldest running request always advances."""


@dataclass(slots=True, eq=False)
class Sequence:
    """One choice of a request. The whole of its state is `num_computed_tokens` against `len(tokens)`."""

    number: int
    """The cache's owner number: never reused."""
    request: EngineRequest
    choice: int
    tokens: TokenSequence
    """Prompt and generated tokens."""
    num_computed_tokens: int = 0
    num_cached_tokens: int | None = None
    """Prompt tokens found in the cache at first admission."""
    matcher: TokenMatcher | None = None
    """Grammar state, if the request has one. Kept over a preemption, as the tokens are."""
    has_made_way: bool = False
    """It gave up its blocks while it waited for tensors."""

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.request.prompt_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self.tokens) - len(self.request.prompt_ids)

    def answer_position(self, at: int) -> int:
        """On all axes, of a token behind the prompt."""
        return at + self.request.next_position - len(self.request.prompt_ids)

    def positions(self, start: int, end: int) -> np.ndarray:
        """int64 [axes, end - start]: the prompt's table, then one position a generated token, equal on all
        axes."""
        prompt = self.request.positions
        length = prompt.shape[1]
        if end <= length:
            return prompt[:, start:end]
        first = max(start, length)
        tail = np.empty((prompt.shape[0], end - first), dtype=np.int64)
        tail[:] = np.arange(first, end) + (self.answer_position(first) - first)
        return tail if start >= length else np.concatenate([prompt[:, start:], tail], axis=1)
