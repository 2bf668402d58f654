"""Which tokens of which sequences one step computes. Pure bookkeeping over the caches; no tensors, no clock.

A sequence is *waiting* (holds nothing) or *running* (holds blocks for all its tokens). A step takes one token
of every running sequence that is writing its answer, then chunks of running prompts, then waiting sequences;
always oldest first.

Progress rule. An admitted request fits the empty pool and each of its media fits the empty encoding cache.
The oldest running sequence always advances, or waits for tensors that are being prepared: it can take blocks
from every younger one (preemption by recomputation, youngest first), and it is planned before any other that
reads encodings. A sequence that waits for tensors while another lacks blocks or a slot gives up its own (they
stay findable), but only once, so that it gets to its end. A waiting sequence is passed only while a running
sequence is computing its next block, or while its tensors are prepared. Whatever else it lacks, nobody passes
it.
"""

from bisect import insort
from collections import deque
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from itertools import count

from engine.budget import StepBudget
from engine.encoder_plan import EncoderPlan
from engine.limits import Limits
from engine.media_wants import MediaWants
from engine.request import EngineRequest, Sequence, TokenMatcher
from engine.step import Step, StepRow
from engine.waiting import Waiter, WaitingQueue, age
from kvcache.encodings import EncodingId
from kvcache.manager import KVCacheManager
from kvcache.match import PrefixMatch
from kvcache.sequence import TokenSequence


class Scheduler:
    """Protocol: (add | abort)* -> schedule -> advance, or rollback (-> restage -> advance)* -> finish* ->
    end_step."""

    def __init__(self, cache: KVCacheManager, plan: EncoderPlan, wants: MediaWants, limits: Limits) -> None:
        self.cache = cache
        self.plan = plan
        self.wants = wants
        self.limits = limits
        self.running: list[Sequence] = []
        self.waiting = WaitingQueue()
        self.num_preemptions = 0
        self.num_computed_prompt_tokens = 0
        self.num_cached_prompt_tokens = 0
        self._numbers = count()
        self._live: dict[str, list[Sequence]] = {}
        self._by_number: dict[int, Sequence] = {}
        self._stalled: dict[Sequence, EncodingId] = {}
        self._unasked: deque[Sequence] = deque()
        self._new: set[Sequence] = set()
        self._epoch = 0
        self.is_cut_short = False
        """The last step looked at as many waiting sequences as one may: look again, even if none started."""

    # Requests come and go.

    def add(self, request: EngineRequest, matchers: Seq[TokenMatcher] = ()) -> None:
        """Queue every choice; the later ones find the first one's blocks. matchers: one for each choice, or
        none."""
        choices = []
        for choice in range(request.num_choices):
            tokens = TokenSequence(request.prompt_ids, request.spans)
            matcher = matchers[choice] if matchers else None
            choices.append(Sequence(next(self._numbers), request, choice, tokens, matcher=matcher))
        self._live[request.request_id] = choices
        for sequence in choices:
            self._by_number[sequence.number] = sequence
            self.waiting.add(sequence)
        if request.spans:
            self._unasked.append(choices[0])

    def holds(self, request_id: str) -> bool:
        return request_id in self._live

    def abort(self, request_id: str, choice: int | None = None) -> bool:
        """End a request, or one choice of it, from whatever state it is in. True if that ended the
        request."""
        ended = False
        for sequence in list(self._live.get(request_id, ())):
            if choice is None or sequence.choice == choice:
                ended = self.finish(sequence)
        return ended

    def finish(self, sequence: Sequence) -> bool:
        """This choice is complete. True if it was the request's last."""
        siblings = self._live[sequence.request.request_id]
        siblings.remove(sequence)
        del self._by_number[sequence.number]
        if not self.waiting.remove(sequence):
            self.running.remove(sequence)
            self._release(sequence)
        self.wants.retain(sequence, ())
        if not siblings:
            del self._live[sequence.request.request_id]
            self.wants.ended(sequence.request.request_id)
        return not siblings

    # One step.

    def schedule(self) -> Step:
        """The next step, staged in the cache; without rows if nothing can be computed now."""
        self._new.clear()
        budget = StepBudget(self.limits)
        self._ask_early(budget)
        self._decode(budget)
        self._continue_prefills(budget)
        self._admit(budget)
        self.is_cut_short = budget.num_matches <= 0 or budget.num_early_matches <= 0
        encode, evicted = self.plan.planned()
        rows = [self._row(*row) for row in budget.rows]
        return Step(rows, encode, evicted, self.cache.take_copies())

    def advance(self, rows: Iterable[StepRow]) -> None:
        """These staged rows have been computed: publish their blocks."""
        lost = self.cache.commit_step()
        assert not lost, "a sequence was freed between its staging and the commit"
        for row in rows:
            sequence = row.sequence
            prompt = sequence.num_prompt_tokens
            self.num_computed_prompt_tokens += max(0, min(row.end, prompt) - row.start)
            if sequence in self._new:
                self.num_cached_prompt_tokens += sequence.num_cached_tokens or 0
            if row.start < prompt or row.end - row.start > 1:
                self._epoch += 1
            sequence.num_computed_tokens = row.end

    def rollback(self) -> None:
        """The staged rows were not computed. Those that shared blocks with others wait again; the rest keep
        their place."""
        for number in self.cache.rollback_step():
            sequence = self._by_number[number]
            self._to_waiting(sequence)
            if sequence in self._new:
                sequence.num_cached_tokens = None

    def restage(self, rows: Iterable[StepRow]) -> list[StepRow]:
        """Of these rows, those whose sequence still runs, staged again."""
        again = [row for row in rows if row.sequence in self.running]
        for row in again:
            self.cache.stage(row.sequence.number, row.end)
        return [self._row(row.sequence, row.start, row.end) for row in again]

    def end_step(self) -> None:
        self.plan.end()

    def check_integrity(self) -> None:
        """Raise AssertionError unless the tables agree with each other and with the caches."""
        running, waiting = set(self.running), {waiter.sequence for waiter in self.waiting}
        live = {sequence for sequences in self._live.values() for sequence in sequences}
        assert not running & waiting
        assert running | waiting == live == set(self._by_number.values())
        assert self.running == sorted(self.running, key=age)
        assert set(self._stalled) <= running
        assert all(sequence.num_computed_tokens == 0 for sequence in waiting)
        self.wants.check_integrity()
        self.cache.check_integrity()
        if not running:
            assert self.cache.num_free_blocks == self.cache.num_blocks

    def _row(self, sequence: Sequence, start: int, end: int) -> StepRow:
        return StepRow(
            sequence, start, end, self.cache.block_table(sequence.number), end == len(sequence.tokens)
        )

    def _take(self, budget: StepBudget, sequence: Sequence, start: int, end: int) -> None:
        self.cache.stage(sequence.number, end)
        budget.take(sequence, start, end)

    def _decode(self, budget: StepBudget) -> None:
        for sequence in list(self.running):
            if not _is_decoding(sequence):
                continue
            num_tokens = len(sequence.tokens)
            while not self.cache.grow(sequence.number, num_tokens):
                youngest = self.running[-1]
                self._preempt(youngest)
                if youngest is sequence:
                    break
            else:
                self._take(budget, sequence, num_tokens - 1, num_tokens)
        if budget.rows:
            budget.num_prefill_tokens = min(budget.num_tokens, self.limits.max_prefill_tokens_beside_decodes)
            self.plan.limit(self.limits.max_prefill_tokens_beside_decodes)

    def _continue_prefills(self, budget: StepBudget) -> None:
        for sequence in self.running:
            if _is_decoding(sequence):
                continue
            start = sequence.num_computed_tokens
            end, missing = self.plan.reach(sequence, start, budget.chunk_end(sequence, start))
            self._stalled.pop(sequence, None)
            if missing is not None:
                self.plan.ask(sequence, end, urgent=True)
                if end == start:
                    self._stalled[sequence] = missing
            if end > start:
                self.plan.take(sequence, start, end)
                self._take(budget, sequence, start, end)

    def _admit(self, budget: StepBudget) -> None:
        if not self.waiting:
            return
        if len(self.running) >= self.limits.max_num_seqs:
            self._preempt_stalled()
        first = True
        for waiter in self.waiting:
            if len(self.running) >= self.limits.max_num_seqs:
                break
            if budget.num_prefill_tokens <= 0 or budget.num_matches <= 0:
                break
            if not self._try_admit(waiter, budget, first):
                break
            first = first and waiter.media is None

    def _try_admit(self, waiter: Waiter, budget: StepBudget, first: bool) -> bool:
        """Admit, or note what the waiter waits for. False when no younger one may pass it."""
        sequence = waiter.sequence
        if waiter.promise_epoch == self._epoch:
            return True
        if waiter.media is not None and not self.plan.available(waiter.media):
            self.plan.ask_for(sequence, waiter.media, urgent=first)
            return True
        waiter.media = None
        budget.num_matches -= 1
        match = self._match(sequence)
        if match.awaits_promise:
            waiter.promise_epoch = self._epoch
            return True
        start = match.num_tokens
        end, missing = self.plan.reach(sequence, start, budget.chunk_end(sequence, start))
        if missing is not None:
            self.plan.ask(sequence, start, urgent=first)
        if end == start:
            waiter.media = missing
            return missing is not None
        if not self._allocate(sequence, match):
            return self._preempt_stalled() and self._try_admit(waiter, budget, first)
        self._start(sequence, start)
        self.plan.take(sequence, start, end)
        self._take(budget, sequence, start, end)
        return True

    def _match(self, sequence: Sequence) -> PrefixMatch:
        request = sequence.request
        return self.cache.match(sequence.tokens, request.namespace, request.indivisible)

    def _allocate(self, sequence: Sequence, match: PrefixMatch) -> bool:
        """Blocks for all its tokens, leaving each running sequence one to grow by."""
        tokens = sequence.tokens
        num_spare = min(len(self.running), self.cache.num_blocks // 16)
        return self.cache.allocate(
            sequence.number, tokens, sequence.request.namespace, match, len(tokens), num_spare
        )

    def _start(self, sequence: Sequence, num_cached_tokens: int) -> None:
        self.waiting.remove(sequence)
        insort(self.running, sequence, key=age)
        sequence.num_computed_tokens = num_cached_tokens
        if sequence.num_cached_tokens is None:
            sequence.num_cached_tokens = num_cached_tokens
            self._new.add(sequence)
        self.wants.retain(sequence, self.plan.needed(sequence, num_cached_tokens))

    def _preempt(self, sequence: Sequence, media: EncodingId | None = None) -> None:
        self._to_waiting(sequence, media)
        self.num_preemptions += 1

    def _preempt_stalled(self) -> bool:
        """Running sequences that wait for tensors make way, each once: what they have computed stays
        findable, but whoever gets their blocks may overwrite it, and two that wait in turn would undo each
        other's work for ever. False: none do."""
        stalled = [item for item in self._stalled.items() if not item[0].has_made_way]
        for sequence, missing in stalled:
            sequence.has_made_way = True
            self._preempt(sequence, missing)
        return bool(stalled)

    def _to_waiting(self, sequence: Sequence, media: EncodingId | None = None) -> None:
        self.running.remove(sequence)
        self._release(sequence)
        sequence.num_computed_tokens = 0
        self.waiting.add(sequence, media)

    def _release(self, sequence: Sequence) -> None:
        self.cache.free(sequence.number)
        self._stalled.pop(sequence, None)
        self._epoch += 1  # what it had promised may be computed by another now

    # Tensors.

    def _ask_early(self, budget: StepBudget) -> None:
        """Have media prepared while their requests wait, as far as the budget for it goes."""
        while self._unasked and self.wants.has_room and budget.num_early_matches > 0:
            sequence = self._unasked.popleft()
            if sequence.number in self._by_number and sequence.num_cached_tokens is None:
                budget.num_early_matches -= 1
                budget.num_matches -= 1
                match = self._match(sequence)
                if not match.awaits_promise:
                    self.plan.ask(sequence, match.num_tokens, urgent=False)


def _is_decoding(sequence: Sequence) -> bool:
    return len(sequence.tokens) - 1 == sequence.num_computed_tokens >= sequence.num_prompt_tokens
