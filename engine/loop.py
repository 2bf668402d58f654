"""Commands in, one step, events out. Knows no model, no process and no transport.

Confining failures is `execution`'s; this file gives requests their beginning, their tokens and their end.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic

from engine.admission import Admission, Refused
from engine.encoder_plan import EncoderPlan
from engine.execution import Execution
from engine.grammar import GrammarCompiler, GrammarError, Matcher
from engine.limits import Limits
from engine.media_wants import MediaWants
from engine.messages import (
    Abort,
    Command,
    EngineStats,
    Event,
    Generate,
    MediaPrepared,
    MediaUnavailable,
    Ping,
    Pong,
    RequestFailed,
    StopChoice,
    TokensGenerated,
)
from engine.request import EngineRequest, Sequence, TokenMatcher
from engine.scheduler import Scheduler
from engine.step import RowFault, SampledToken, StepRunner
from kvcache.encodings import EncodingCache, EncodingId
from kvcache.keys import MediaKey
from kvcache.manager import KVCacheManager
from models.processing.base import PreparedMedia, Processing

logger = logging.getLogger(__name__)

STATS_INTERVAL_S = 0.1
INTERNAL_MESSAGE = "the server failed to process this request"


class Engine:
    """Protocol: (handle* -> step)*, all on one thread. emit gets every event, in order, on that thread; flush
    is called when some should not wait for the step's end.

    fatal: exceptions after which the device is of no use; `step` lets them out. All others fail single
    requests; exhausted are those that say that memory is short. debug: check the tables whenever nothing is
    left to do.
    """

    def __init__(
        self,
        runner: StepRunner,
        cache: KVCacheManager,
        encodings: EncodingCache,
        processing: Processing,
        limits: Limits,
        grammars: GrammarCompiler,
        emit: Callable[[Event], None],
        *,
        flush: Callable[[], None] = lambda: None,
        fatal: tuple[type[BaseException], ...] = (),
        exhausted: Callable[[Exception], bool] = lambda error: isinstance(error, MemoryError),
        debug: bool = False,
    ) -> None:
        self.runner = runner
        self.encodings = encodings
        self.emit = emit
        self._flush = flush
        self._admission = Admission(processing, limits, runner.encoding_size_bytes)
        self._grammars = grammars
        self._compiling: dict[str, tuple[EngineRequest, Future[list[Matcher]]]] = {}
        bytes_per_token = max(1, encodings.capacity_bytes // max(1, limits.max_model_len))
        self.wants = MediaWants(limits.prepared_media_bytes, bytes_per_token, emit)
        self.plan = EncoderPlan(encodings, self.wants, runner.encoding_size_bytes, limits.max_encoder_tokens)
        self.scheduler = Scheduler(cache, self.plan, self.wants, limits)
        self._execution = Execution(runner, self.scheduler, self.plan, self._fail_row, fatal, exhausted)
        self._cache = cache
        self._debug = debug
        self._arrivals = 0
        self._num_steps = self._num_generated = self._num_aborted = self._num_failed = self._num_finished = 0
        self._stats_due = 0.0
        self._was_idle = True

    @property
    def is_compiling(self) -> bool:
        """A grammar is being compiled: look again soon, even if no command comes."""
        return bool(self._compiling)

    def close(self) -> None:
        """Grammars that still wait to be compiled are given up."""
        self._grammars.close()

    def handle(self, command: Command, arrays: PreparedMedia | None = None) -> None:
        """arrays: those of MediaPrepared."""
        self._was_idle = False
        match command:
            case Generate():
                self._generate(command)
            case Abort():
                self._abort(command.request_id)
            case StopChoice():
                if self.scheduler.abort(command.request_id, command.choice):
                    self._num_finished += 1
            case MediaPrepared():
                self.wants.put(EncodingId(command.namespace, MediaKey(command.key)), arrays or {})
            case MediaUnavailable():
                encoding = EncodingId(command.namespace, MediaKey(command.key))
                if self.wants.unavailable(encoding, command.request_id):
                    self._fail(command.request_id, command.code, command.message)
            case Ping():
                self.emit(Pong())

    def step(self) -> bool:
        """Compute one step. False when there was nothing to compute: wait for a command."""
        self._take_compiled()
        step = self.scheduler.schedule()
        self._flush()  # media are prepared while the step runs
        try:
            if step.rows:
                self._was_idle = False
                self._num_steps += 1
                for sequence, token in self._execution.run(step):
                    self._accept(sequence, token)
        finally:
            self.scheduler.end_step()
        self._report(idle=not step.rows)
        return bool(step.rows) or self.scheduler.is_cut_short

    def stats(self) -> EngineStats:
        scheduler = self.scheduler
        return EngineStats(
            num_running=len(scheduler.running),
            num_waiting=len(scheduler.waiting) + len(self._compiling),
            num_free_blocks=self._cache.num_free_blocks,
            num_blocks=self._cache.num_blocks,
            num_cached_blocks=self._cache.num_cached_blocks,
            encoder_cache_used_bytes=self.encodings.used_bytes,
            num_steps=self._num_steps,
            num_computed_prompt_tokens=scheduler.num_computed_prompt_tokens,
            num_cached_prompt_tokens=scheduler.num_cached_prompt_tokens,
            num_generated_tokens=self._num_generated,
            num_encoder_runs=self.plan.num_runs,
            num_encoder_hits=self.plan.num_hits,
            num_media_requested=self.wants.num_requested,
            num_preemptions=scheduler.num_preemptions,
            num_evicted_blocks=self._cache.num_evicted_blocks,
            num_aborted=self._num_aborted,
            num_failed=self._num_failed,
            num_finished=self._num_finished,
        )

    def check_integrity(self) -> None:
        """Raise AssertionError unless every table agrees; between two steps only."""
        self.scheduler.check_integrity()
        self.encodings.check_integrity()
        if not self.scheduler.running and not self.scheduler.waiting:
            assert len(self.wants) == 0

    # Requests.

    def _generate(self, command: Generate) -> None:
        if command.request_id in self._compiling or self.scheduler.holds(command.request_id):
            logger.error("request id %s is already in use", command.request_id)
            return
        self._arrivals += 1
        try:
            request = self._admission.admit(command, self._arrivals)
        except Refused as refusal:
            self._fail(command.request_id, refusal.code, refusal.message, refusal.param)
            return
        if request.grammar is None:
            self.scheduler.add(request)
        else:
            matchers = self._grammars.compile(
                request.grammar, request.sampling.stop_token_ids, request.num_choices
            )
            self._compiling[request.request_id] = request, matchers

    def _take_compiled(self) -> None:
        done = [request_id for request_id, (_, matchers) in self._compiling.items() if matchers.done()]
        for request_id in done:
            request, matchers = self._compiling.pop(request_id)
            try:
                self.scheduler.add(request, matchers.result())
            except GrammarError as error:
                self._fail(request_id, "invalid_grammar", f"invalid grammar: {error}", "response_format")
            except Exception:
                logger.exception("compiling the grammar of %s", request_id)
                self._fail(request_id, "internal", INTERNAL_MESSAGE)

    def _abort(self, request_id: str) -> None:
        compiling = self._compiling.pop(request_id, None)
        if compiling is not None:
            compiling[1].cancel()
        if compiling is not None or self.scheduler.abort(request_id):
            self._num_aborted += 1

    def _fail(self, request_id: str, code: str, message: str, param: str | None = None) -> None:
        self.scheduler.abort(request_id)
        self._num_failed += 1
        self.emit(RequestFailed(request_id, code, message, param))

    # Tokens.

    def _fail_row(self, request_id: str, fault: RowFault) -> None:
        """Several rows may belong to one request: it fails once."""
        if self.scheduler.holds(request_id):
            is_internal = fault.code == "internal"
            logger.log(
                logging.ERROR if is_internal else logging.INFO, "request %s: %s", request_id, fault.message
            )
            self._fail(request_id, fault.code, INTERNAL_MESSAGE if is_internal else fault.message)

    def _accept(self, sequence: Sequence, result: SampledToken) -> None:
        token, request = result.token_id, sequence.request
        if not self.scheduler.holds(request.request_id):
            return  # a sibling's fault has just ended the request
        sequence.tokens.append(token)
        self._num_generated += 1
        stops = self._stops(sequence, token)
        if sequence.matcher is not None and not stops and (fault := _not_accepted(sequence.matcher, token)):
            self._fail_row(request.request_id, fault)
            return
        finish_reason = self._finish_reason(sequence, stops)
        self.emit(
            TokensGenerated(
                request.request_id,
                sequence.choice,
                (token,),
                finish_reason,
                -1 if sequence.choice else min(sequence.num_cached_tokens or 0, sequence.num_prompt_tokens),
                () if result.logprobs is None else (result.logprobs,),
            )
        )
        if finish_reason and self.scheduler.finish(sequence):
            self._num_finished += 1

    def _stops(self, sequence: Sequence, token: int) -> bool:
        sampling = sequence.request.sampling
        return token in sampling.stop_token_ids and sequence.num_output_tokens > sampling.min_tokens

    def _finish_reason(self, sequence: Sequence, stops: bool) -> str:
        if stops or (sequence.matcher is not None and sequence.matcher.finished):
            return "stop"
        return "length" if sequence.num_output_tokens >= sequence.request.sampling.max_tokens else ""

    def _report(self, idle: bool) -> None:
        now = monotonic()
        if (idle and not self._was_idle) or (not idle and now >= self._stats_due):
            self._stats_due = now + STATS_INTERVAL_S
            self.emit(self.stats())
        if idle and not self._was_idle and self._debug:
            self.check_integrity()
        self._was_idle = idle


def _not_accepted(matcher: TokenMatcher, token: int) -> RowFault | None:
    """Why the matcher can't move past a token that its own mask allowed."""
    try:
        return None if matcher.accept(token) else RowFault(f"token {token} is outside the grammar")
    except GrammarError as error:
        return RowFault(f"the grammar can't be followed: {error}", "invalid_grammar")
