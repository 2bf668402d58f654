"""An engine over the arithmetic model, and a server's half that answers it: what tests of scheduler and loop
share."""

from collections.abc import Set

import numpy as np

from engine.grammar import GrammarCompiler
from engine.limits import Limits
from engine.loop import Engine
from engine.messages import (
    Abort,
    EngineStats,
    Generate,
    MediaItem,
    MediaNeeded,
    MediaPrepared,
    MediaUnavailable,
    RequestFailed,
    SamplingParams,
    TokensGenerated,
)
from kvcache.encodings import EncodingCache, EncodingId
from kvcache.manager import KVCacheManager
from models.processing.base import MediaLayout
from tests.engine.arithmetic import (
    BLOCK_SIZE,
    VOCAB_SIZE,
    ArithmeticProcessing,
    ArithmeticRunner,
    DeviceLost,
    lone_run,
    prepared,
)


def media_item(name: str, num_tokens: int, kind: str = "image") -> MediaItem:
    return MediaItem(name.encode().ljust(32, b"."), kind, MediaLayout(num_tokens))


def generate(
    request_id: str, parts, max_tokens: int = 4, namespace: bytes = b"n", choices: int = 1, **sampling
) -> Generate:
    """parts: ints are token ids, MediaItems become a span of placeholders."""
    ids: list[int] = []
    spans, media = [], []
    for part in parts:
        if isinstance(part, MediaItem):
            if part not in media:
                media.append(part)
            count = part.layout.num_tokens
            spans.append((len(ids), len(ids) + count, media.index(part), 0))
            ids += [1] * count
        else:
            ids.append(part)
    return Generate(
        request_id,
        np.array(ids, "<i4").tobytes(),
        namespace,
        SamplingParams(max_tokens=max_tokens, **sampling),
        choices,
        tuple(spans),
        tuple(media),
    )


class House:
    """prompt_answers: MediaNeeded is answered at once; else when the test calls `answer`."""

    def __init__(
        self,
        num_blocks: int = 32,
        encoder_bytes: int = 64,
        prompt_answers: bool = True,
        grammars: GrammarCompiler | None = None,
        **limits: int,
    ) -> None:
        defaults = {
            "vocab_size": VOCAB_SIZE,
            "max_model_len": 1000,
            "num_pool_tokens": num_blocks * BLOCK_SIZE,
            "encoder_cache_bytes": encoder_bytes,
            "max_num_seqs": 8,
            "max_num_batched_tokens": 64,
            "max_prefill_tokens_beside_decodes": 64,
            "max_encoder_tokens": 1000,
            "prepared_media_bytes": 1000,
        }
        self.limits = Limits(**(defaults | limits))
        self.runner = ArithmeticRunner(num_blocks)
        self.cache = KVCacheManager(num_blocks, BLOCK_SIZE)
        self.encodings = EncodingCache(encoder_bytes)
        self.engine = Engine(
            self.runner,
            self.cache,
            self.encodings,
            ArithmeticProcessing(),
            self.limits,
            grammars or GrammarCompiler(lambda: None),
            self._emit,
            fatal=(DeviceLost,),
        )
        self.prompt_answers = prompt_answers
        self.requests: dict[str, Generate] = {}
        self.tokens: dict[tuple[str, int], list[int]] = {}
        self.finished: dict[tuple[str, int], str] = {}
        self.cached: dict[str, int] = {}
        self.failures: dict[str, RequestFailed] = {}
        self.asked: list[MediaNeeded] = []
        self.num_asked = 0
        self.stats = EngineStats()

    def _emit(self, event) -> None:
        match event:
            case TokensGenerated():
                key = event.request_id, event.choice
                assert key not in self.finished, "a token after the end"
                assert event.request_id not in self.failures
                assert len(event.logprobs) == len(event.token_ids)
                self.tokens.setdefault(key, []).extend(event.token_ids)
                if event.choice == 0:
                    assert (
                        self.cached.setdefault(event.request_id, event.num_cached_tokens)
                        == event.num_cached_tokens
                    )
                if event.finish_reason:
                    self.finished[key] = event.finish_reason
            case RequestFailed():
                assert event.request_id not in self.failures, "failed twice"
                self.failures[event.request_id] = event
            case MediaNeeded():
                self.num_asked += 1
                self.asked.append(event)
            case EngineStats():
                self.stats = event

    def add(self, request: Generate) -> None:
        self.requests[request.request_id] = request
        self.engine.handle(request)

    def abort(self, request_id: str) -> None:
        self.engine.handle(Abort(request_id))

    def answer(self, needed: MediaNeeded) -> None:
        self.asked.remove(needed)
        self.engine.handle(MediaPrepared(needed.namespace, needed.key, ()), prepared(needed.key))

    def refuse(self, needed: MediaNeeded) -> None:
        self.asked.remove(needed)
        self.engine.handle(
            MediaUnavailable(needed.request_id, needed.namespace, needed.key, "invalid_image", "broken")
        )

    def step(self) -> bool:
        if self.prompt_answers:
            for needed in list(self.asked):
                self.answer(needed)
        stepped = self.engine.step()
        self.engine.check_integrity()
        return stepped

    def run(self, max_steps: int = 2000) -> None:
        """Until nothing is left to do; every media is answered."""
        for _ in range(max_steps):
            for needed in list(self.asked):
                self.answer(needed)
            if not self.step() and not self.asked:
                return
        raise AssertionError("no end in sight")

    def check_answers(self) -> None:
        """Everything finished is what a lone run gives."""
        for (request_id, choice), tokens in self.tokens.items():
            expected = lone_run(self.requests[request_id], choice, len(tokens))
            assert tokens == expected, f"{request_id}, choice {choice}"

    def check_all_done(self, aborted: Set[str] = frozenset()) -> None:
        """Every request has ended in all its choices, rightly (or was aborted), and nothing is left
        behind."""
        self.check_answers()
        for request_id, request in self.requests.items():
            if request_id not in self.failures and request_id not in aborted:
                assert all((request_id, choice) in self.finished for choice in range(request.num_choices))
        assert not self.engine.scheduler.running
        assert not self.engine.scheduler.waiting
        assert self.cache.num_free_blocks == self.cache.num_blocks
        assert set(self.runner.encodings) == self.held_encodings()

    def held_encodings(self) -> set[EncodingId]:
        """Those that the cache holds, by its own account; it pins none between two steps."""
        entries = self.encodings._entries
        assert not any(entry.num_pins for entry in entries.values())
        return set(entries)
