"""From what the server asked to what the engine has promised to finish: `Generate` -> `EngineRequest`.

Everything that could make a request impossible is found here, so no later stage needs to doubt one. Knows
nothing of queues or of what is running now: each choice by itself is judged against the empty pool and the
empty encoding cache. A pool that holds one choice at a time is enough for 128 of them, since those that don't
fit beside it wait or make way.
"""

from collections.abc import Callable

import msgspec
import numpy as np

from engine.limits import Limits
from engine.messages import MAX_CHOICES, Generate, MediaItem, SamplingParams
from engine.request import EngineRequest
from kvcache.keys import MediaKey
from kvcache.spans import MediaSpan
from models.processing.base import MediaLayout, Processing


class Refused(Exception):
    """A request that can't be honoured. code and param as in `messages.RequestFailed`."""

    def __init__(self, message: str, code: str = "invalid_request", param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param


class Admission:
    """encoding_size_bytes: what the encoder's output for a layout takes in the encoding cache."""

    def __init__(
        self, processing: Processing, limits: Limits, encoding_size_bytes: Callable[[MediaLayout], int]
    ) -> None:
        self.processing = processing
        self.limits = limits
        self.encoding_size_bytes = encoding_size_bytes

    def admit(self, command: Generate, arrival: int) -> EngineRequest:
        """Raises Refused; nothing else, whatever the command holds."""
        ids = self._ids(command)
        sampling = self._sampling(command.sampling, len(ids))
        if not 1 <= command.num_choices <= MAX_CHOICES:
            raise Refused(f"n must lie in 1..{MAX_CHOICES}", param="n")
        media = self._media(command.media)
        spans = self._spans(command, len(ids))
        indivisible = self._indivisible(spans, media)
        items = [(media[span.key].kind, media[span.key].layout) for span in spans]
        try:
            positions = self.processing.positions(len(ids), spans, items)
        except Exception as error:  # the family's arithmetic over numbers that came with the request
            raise Refused(
                "the media's layout doesn't match its placeholder tokens", param="messages"
            ) from error
        return EngineRequest(
            request_id=command.request_id,
            namespace=command.namespace,
            prompt_ids=tuple(ids.tolist()),
            spans=spans,
            media=dict(media),
            positions=positions.ids,
            next_position=positions.next_position,
            sampling=sampling,
            num_choices=command.num_choices,
            grammar=command.grammar,
            indivisible=indivisible,
            arrival=arrival,
        )

    def _indivisible(
        self, spans: tuple[MediaSpan, ...], media: dict[bytes, MediaItem]
    ) -> tuple[tuple[int, int], ...]:
        """The ranges that see themselves in both directions, and so are computed in one step."""
        kinds = self.processing.bidirectional_kinds
        ranges = tuple((span.start, span.end) for span in spans if media[span.key].kind in kinds)
        longest = max((end - start for start, end in ranges), default=0)
        if longest > self.limits.max_indivisible_tokens:
            raise Refused(
                f"one of the media items takes {longest} tokens, which must be computed at once, "
                f"but this server computes at most {self.limits.max_indivisible_tokens} at once",
                "media_too_large",
                "messages",
            )
        return ranges

    def _ids(self, command: Generate) -> np.ndarray:
        if not command.ids or len(command.ids) % 4:
            raise Refused("the prompt is empty", param="messages")
        ids = np.frombuffer(command.ids, dtype="<i4")
        if ids.min() < 0 or ids.max() >= self.limits.vocab_size:
            raise Refused(f"token ids must lie in 0..{self.limits.vocab_size - 1}", param="prompt")
        longest = min(self.limits.max_model_len, self.limits.num_pool_tokens + 1)
        if len(ids) + 1 > longest:
            raise Refused(
                f"This model's maximum context length is {longest} tokens. However, the prompt has "
                f"{len(ids)} tokens, which leaves no room for an answer.",
                "context_length_exceeded",
                "messages",
            )
        return ids

    def _sampling(self, sampling: SamplingParams, num_prompt_tokens: int) -> SamplingParams:
        if sampling.max_tokens < 1:
            raise Refused("max_tokens must be at least 1", param="max_tokens")
        vocab_size = self.limits.vocab_size
        if any(not 0 <= token < vocab_size for token in sampling.logit_bias):
            raise Refused(f"logit_bias names tokens outside 0..{vocab_size - 1}", param="logit_bias")
        if any(not 0 <= token < vocab_size for token in sampling.stop_token_ids):
            raise Refused(f"stop_token_ids must lie in 0..{vocab_size - 1}", param="stop_token_ids")
        if sampling.num_top_logprobs is not None and not 0 <= sampling.num_top_logprobs <= vocab_size:
            raise Refused(f"top_logprobs must lie in 0..{vocab_size}", param="top_logprobs")
        # The last token of an answer is never computed, so it needs a position but no place in the pool.
        room = min(self.limits.max_model_len, self.limits.num_pool_tokens + 1) - num_prompt_tokens
        max_tokens = min(sampling.max_tokens, room)
        min_tokens = min(sampling.min_tokens, max_tokens)
        return msgspec.structs.replace(sampling, max_tokens=max_tokens, min_tokens=min_tokens)

    def _media(self, items: tuple[MediaItem, ...]) -> dict[bytes, MediaItem]:
        media: dict[bytes, MediaItem] = {}
        for item in items:
            if item.kind not in self.processing.kinds:
                raise Refused(f"this model takes no {item.kind}", param="model")
            if item.layout.num_tokens < 1 or media.setdefault(item.key, item) != item:
                raise Refused("a media item has no or two different layouts", param="messages")
            size = self.encoding_size_bytes(item.layout)
            if size > self.limits.encoder_cache_bytes:
                raise Refused(
                    f"a media item's encoding takes {size} bytes, "
                    f"but this server holds at most {self.limits.encoder_cache_bytes}",
                    "media_too_large",
                    "messages",
                )
        return media

    def _spans(self, command: Generate, num_tokens: int) -> tuple[MediaSpan, ...]:
        spans: list[MediaSpan] = []
        previous_end = 0
        for start, end, index, offset in command.spans:
            if not (previous_end <= start < end <= num_tokens and 0 <= index < len(command.media)):
                raise Refused("media spans are empty, out of order or outside the prompt", param="messages")
            item = command.media[index]
            if offset < 0 or offset + end - start > item.layout.num_tokens:
                raise Refused("a media span reaches past its media's tokens", param="messages")
            spans.append(MediaSpan(start, end, MediaKey(item.key), offset))
            previous_end = end
        return tuple(spans)
