"""Computes one scheduled step, and confines what goes wrong in it to the requests at fault.

A failed step is rolled back and repeated in halves until the row that fails is found. The others get the same
tokens, since a token depends only on its own sequence, seed and position. Knows nothing of what a token
means.
"""

import logging
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq

from engine.encoder_plan import EncoderPlan
from engine.request import Sequence
from engine.scheduler import Scheduler
from engine.step import EncodeItem, RowFault, SampledToken, Step, StepRow, StepRunner
from kvcache.encodings import EncodingId

logger = logging.getLogger(__name__)

Results = dict[int, SampledToken | RowFault]


class Execution:
    """fail: end a request. fatal: exceptions that no retry helps against. exhausted: does this one say that
    memory is short now?"""

    def __init__(
        self,
        runner: StepRunner,
        scheduler: Scheduler,
        plan: EncoderPlan,
        fail: Callable[[str, RowFault], None],
        fatal: tuple[type[BaseException], ...],
        exhausted: Callable[[Exception], bool],
    ) -> None:
        self._runner = runner
        self._scheduler = scheduler
        self._plan = plan
        self._fail = fail
        self._fatal = fatal
        self._exhausted = exhausted

    def run(self, step: Step) -> Iterator[tuple[Sequence, SampledToken]]:
        """Copy, encode, compute, publish. Yields new tokens, each after its row was published; finish
        sequences meanwhile."""
        self._runner.copy_blocks(step.copies)
        self._runner.drop_encodings(step.evicted)
        rows = step.rows
        if step.encode and (failed := self._encode(step.encode)):
            rows = self._without_readers(rows, failed)
        yield from self._execute(rows)

    def _encode(self, items: Seq[EncodeItem]) -> dict[EncodingId, RowFault]:
        """Run the encoder for each item by itself. Returns why those that failed did."""
        failed: dict[EncodingId, RowFault] = {}
        for item in items:
            try:
                self._runner.encode(item)
            except self._fatal:
                raise
            except Exception as error:
                logger.exception("encoding %s of layout %s", item.kind, item.layout)
                failed[item.encoding] = self._fault(error)
        return failed

    def _without_readers(self, rows: list[StepRow], failed: dict[EncodingId, RowFault]) -> list[StepRow]:
        """Fail the requests whose rows read what could not be encoded; the rest are staged again."""
        for encoding, fault in failed.items():
            logger.error("media %s: %s", encoding.key.hex()[:16], fault.message)
            self._plan.failed(encoding)
        self._scheduler.rollback()
        for row in rows:
            request = row.sequence.request
            spans = row.sequence.tokens.spans_within(row.start, row.end)
            faults = (failed.get(EncodingId(request.namespace, span.key)) for span in spans)
            if fault := next(filter(None, faults), None):
                self._fail(request.request_id, fault)
        return self._scheduler.restage(rows)

    def _execute(self, rows: list[StepRow]) -> Iterator[tuple[Sequence, SampledToken]]:
        """Compute staged rows; in halves, if they fail together."""
        if not rows:
            return
        try:
            results = self._runner.execute(rows)
        except self._fatal:
            raise
        except Exception as error:
            logger.exception("a step of %d rows", len(rows))
            self._scheduler.rollback()
            if len(rows) == 1:
                self._fail(rows[0].sequence.request.request_id, self._fault(error))
                return
            middle = len(rows) // 2
            for half in (rows[:middle], rows[middle:]):
                yield from self._execute(self._scheduler.restage(half))
            return
        if any(isinstance(result, RowFault) for result in results.values()):
            rows = self._without_faults(rows, results)
        self._scheduler.advance(rows)
        for row in rows:
            result = results.get(row.sequence.number)
            if isinstance(result, SampledToken):
                yield row.sequence, result

    def _without_faults(self, rows: list[StepRow], results: Results) -> list[StepRow]:
        """Fail the requests of faulty rows, so that nothing they wrote is published; keep the others'
        results."""
        self._scheduler.rollback()
        for row in rows:
            fault = results.get(row.sequence.number)
            if isinstance(fault, RowFault):
                self._fail(row.sequence.request.request_id, fault)
        return self._scheduler.restage(rows)

    def _fault(self, error: Exception) -> RowFault:
        if self._exhausted(error):
            return RowFault("The server has too little memory for this request now.", "overloaded")
        return RowFault(f"{type(error).__name__} in a step of its own")
