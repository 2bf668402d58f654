"""An engine on a real model, turned by hand, step by step, with its counters."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.config import EngineConfig
from engine.grammar import GrammarCompiler
from engine.limits import Limits
from engine.loop import Engine
from engine.messages import (
    Abort,
    EngineStats,
    Event,
    MediaNeeded,
    MediaPrepared,
    RequestFailed,
    TokenLogprobs,
    TokensGenerated,
)
from engine.runner import build_runner
from kvcache.encodings import EncodingCache
from kvcache.manager import KVCacheManager
from models.interface import ServedModel
from tests.proof.prompts import Prompt, prepare

BLOCK = 16
MANY_STEPS = 5000


@dataclass
class Answer:
    """What one choice said. num_cached: prompt tokens of choice 0 that were found."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    num_cached: int = -1
    finish_reason: str = ""


class Rig:
    """One engine. chunk: the most tokens in a step. Answers by (request id, choice)."""

    def __init__(
        self,
        model: ServedModel,
        *,
        backend: str = "sdpa",
        num_blocks: int = 256,
        chunk: int = 2048,
        max_num_seqs: int = 16,
        encoder_cache_bytes: int = 1 << 24,
        hash_bits: int = 128,
    ) -> None:
        limits = Limits(
            vocab_size=model.vocab_size,
            max_model_len=num_blocks * BLOCK,
            num_pool_tokens=num_blocks * BLOCK,
            encoder_cache_bytes=encoder_cache_bytes,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=chunk,
            max_prefill_tokens_beside_decodes=chunk,
            max_encoder_tokens=4096,
            prepared_media_bytes=1 << 26,
        )
        self.model = model
        self.manager = KVCacheManager(num_blocks, BLOCK, hash_bits)
        self.encodings = EncodingCache(encoder_cache_bytes)
        config = EngineConfig(model="", attention_backend=backend, num_threads=1)
        self.engine = Engine(
            build_runner(model, config, num_blocks),
            self.manager,
            self.encodings,
            model.processing,
            limits,
            GrammarCompiler(lambda: _no_grammars()),
            self._event,
            debug=True,
        )
        self.answers: dict[tuple[str, int], Answer] = {}
        self.failures: dict[str, RequestFailed] = {}
        self.num_prepared = 0
        self._prompts: dict[str, Prompt] = {}
        self._needed: list[MediaNeeded] = []

    @property
    def stats(self) -> EngineStats:
        return self.engine.stats()

    def ask(self, prompt: Prompt) -> None:
        self._prompts[prompt.request.request_id] = prompt
        for choice in range(prompt.request.num_choices):
            self.answers[prompt.request.request_id, choice] = Answer()
        self.engine.handle(prompt.request)

    def abort(self, prompt: Prompt) -> None:
        self.engine.handle(Abort(prompt.request.request_id))

    def step(self) -> bool:
        """One step, having handed over the tensors that were asked for. False when nothing is left to do."""
        busy = self.engine.step()
        return self._hand_over() or busy

    def run(self, prompts: Sequence[Prompt]) -> list[Answer]:
        """Ask all at once and turn until all have ended: choice 0 of each."""
        for prompt in prompts:
            self.ask(prompt)
        self.finish()
        return [self.answers[prompt.request.request_id, 0] for prompt in prompts]

    def finish(self) -> None:
        for _ in range(MANY_STEPS):
            if not self.step():
                break
        else:
            raise AssertionError("the engine does not come to rest")
        self.engine.check_integrity()
        assert not self.failures, self.failures

    def _event(self, event: Event) -> None:
        match event:
            case TokensGenerated():
                answer = self.answers[event.request_id, event.choice]
                answer.tokens += event.token_ids
                answer.logprobs += event.logprobs
                answer.finish_reason = event.finish_reason
                if event.num_cached_tokens >= 0 and answer.num_cached < 0:
                    answer.num_cached = event.num_cached_tokens
            case RequestFailed():
                self.failures[event.request_id] = event
            case MediaNeeded():
                self._needed.append(event)

    def _hand_over(self) -> bool:
        needed, self._needed = self._needed, []
        for event in needed:
            arrays = prepare(self._prompts[event.request_id].media[event.key], self.model.processing)
            self.num_prepared += 1
            self.engine.handle(MediaPrepared(event.namespace, event.key, ()), arrays)
        return bool(needed)


def _no_grammars() -> None:
    raise AssertionError("no grammar is asked for here")
