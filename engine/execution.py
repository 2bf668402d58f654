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
from kvcache.match import BlockCopy

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
        rows = step.rows
        if step.copies and (fault := self._copy(step.copies)):
            targets, size = {copy.target for copy in step.copies}, self._scheduler.cache.block_size
            rows = self._without(
                rows, lambda row: fault if row.block_table[row.start // size] in targets else None
            )
        self._runner.drop_encodings(step.evicted)
        if step.encode and (failed := self._encode(step.encode)):
            rows = self._without(rows, lambda row: _unreadable(row, failed))
        yield from self._execute(rows)

    def _copy(self, copies: Seq[BlockCopy]) -> RowFault | None:
        """Returns why it failed, for all of them."""
        try:
            self._runner.copy_blocks(copies)
        except self._fatal:
            raise
        except Exception as error:
            logger.exception("copying %d blocks", len(copies))
            return self._fault(error)
        return None

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
        for encoding, fault in failed.items():
            logger.error("media %s: %s", encoding.key.hex()[:16], fault.message)
            self._plan.failed(encoding)
        return failed

    def _without(self, rows: list[StepRow], fault_of: Callable[[StepRow], RowFault | None]) -> list[StepRow]:
        """Fail the requests of faulty rows, so that nothing they wrote is published; the rest are staged
        again."""
        faults = [(row.sequence.request.request_id, fault) for row in rows if (fault := fault_of(row))]
        self._scheduler.rollback()
        for request_id, fault in faults:
            self._fail(request_id, fault)
        return self._scheduler.restage(rows)

    def _execute(self, rows: list[StepRow]) -> Iterator[tuple[Sequence, SampledToken]]:
        """Compute staged rows; in halves, if they fail together."""
        if not rows:
            return
        results = self._attempt(rows)
        if isinstance(results, RowFault):
            self._scheduler.rollback()
            if len(rows) == 1:
                self._fail(rows[0].sequence.request.request_id, results)
                return
            middle = len(rows) // 2
            for half in (rows[:middle], rows[middle:]):
                yield from self._execute(self._scheduler.restage(half))
            return
        if any(isinstance(result, RowFault) for result in results.values()):
            rows = self._without(rows, lambda row: _own_fault(row, results))
        self._scheduler.advance(rows)
        for row in rows:
            result = results.get(row.sequence.number)
            if isinstance(result, SampledToken):
                yield row.sequence, result

    def _attempt(self, rows: list[StepRow]) -> Results | RowFault:
        """Returns why all of it failed, if it did. The exception ends here: its traceback holds the tensors
        of the step that failed, and where memory is short, whoever tries again needs their place."""
        try:
            return self._runner.execute(rows)
        except self._fatal:
            raise
        except Exception as error:
            logger.exception("a step of %d rows", len(rows))
            return self._fault(error)

    def _fault(self, error: Exception) -> RowFault:
        if self._exhausted(error):
            return RowFault("The server has too little memory for this request now.", "overloaded")
        return RowFault(f"{type(error).__name__} in a step of its own")


def _unreadable(row: StepRow, failed: dict[EncodingId, RowFault]) -> RowFault | None:
    """Why something that the row reads could not be encoded."""
    spans = row.sequence.tokens.spans_within(row.start, row.end)
    faults = (failed.get(EncodingId(row.sequence.request.namespace, span.key)) for span in spans)
    return next(filter(None, faults), None)


def _own_fault(row: StepRow, results: Results) -> RowFault | None:
    result = results.get(row.sequence.number)
    return result if isinstance(result, RowFault) else None
