"""One answer in the making: from the engine's token events to what a client sees of it.

token ids -> text -> stop strings -> thought and answer -> tool calls. Streamed and whole answers are made
of the same pieces, so they can't differ. Knows neither JSON nor HTTP.
"""

from dataclasses import dataclass, field
from typing import Protocol

from engine.messages import TokensGenerated
from server.logprobs import TokenNames, TokenReport
from server.reasoning import ReasoningSplitter
from server.stop_strings import StopStrings
from server.tools.parser import Parsed, ToolCallParser, ToolDelta


class TextDecoder(Protocol):
    """Token ids to text, never half a character."""

    def push(self, token_ids: list[int]) -> str: ...

    def finish(self) -> str: ...


@dataclass
class Piece:
    """What one event adds to an answer. An empty finish_reason: it goes on."""

    content: str = ""
    reasoning: str = ""
    calls: list[ToolDelta] = field(default_factory=list)
    tokens: list[TokenReport] = field(default_factory=list)
    finish_reason: str = ""

    def __bool__(self) -> bool:
        return bool(self.content or self.reasoning or self.calls or self.tokens or self.finish_reason)


@dataclass(frozen=True)
class Reading:
    """How answers of one request are read. `silent_ids` end an answer and are no text."""

    stop: tuple[str, ...] = ()
    silent_ids: frozenset[int] = frozenset()
    names: TokenNames | None = None
    """Given where log-probabilities are wanted."""
    reasoning: bool = False
    begins_inside_thought: bool = False
    tool_calls: bool = False
    single_tool_call: bool = False


class Choice:
    """Feed it the events of one choice; after `finished` it takes no more."""

    def __init__(self, decoder: TextDecoder, reading: Reading) -> None:
        self._decoder = decoder
        self._reading = reading
        self._stop = StopStrings(reading.stop)
        self._splitter = ReasoningSplitter(reading.begins_inside_thought) if reading.reasoning else None
        self._calls = ToolCallParser() if reading.tool_calls else None
        self._reports: list[TokenReport] = []
        self._num_decoded_chars = 0
        self._num_released_chars = 0
        self.num_tokens = 0
        self.num_reasoning_tokens = 0
        self.finished = False

    def push(self, event: TokensGenerated) -> Piece:
        piece = Piece()
        for index, token_id in enumerate(event.token_ids):
            if self.finished:
                break
            self._push_token(event, index, token_id, piece)
        if event.finish_reason and not self.finished:
            self._finish(event.finish_reason, piece)
        return piece

    def _push_token(self, event: TokensGenerated, index: int, token_id: int, piece: Piece) -> None:
        self.num_tokens += 1
        if self._splitter is not None and self._splitter.inside:
            self.num_reasoning_tokens += 1
        is_last = index == len(event.token_ids) - 1
        if is_last and event.finish_reason == "stop" and token_id in self._reading.silent_ids:
            return
        if self._reading.names is not None:
            report = TokenReport(
                self._reading.names, token_id, event.logprobs[index], self._num_decoded_chars
            )
            self._reports.append(report)
        text = self._decoder.push([token_id])
        self._num_decoded_chars += len(text)
        self._read(self._stop.push(text), piece)
        if self._stop.matched:
            self._finish("stop", piece)

    def _read(self, text: str, piece: Piece) -> None:
        """Text that no stop string can take back any more."""
        self._num_released_chars += len(text)
        if self._splitter is not None:
            thought, text = self._splitter.push(text)
            piece.reasoning += thought
        self._add(self._calls.push(text) if self._calls is not None else Parsed(text, []), piece)
        released = [report for report in self._reports if report.start < self._num_released_chars]
        piece.tokens += released
        del self._reports[: len(released)]
        if self._reading.single_tool_call and self._calls is not None and self._calls.num_complete:
            self.finished = True
            piece.finish_reason = "tool_calls"

    def _finish(self, reason: str, piece: Piece) -> None:
        if not self._stop.matched:
            text = self._decoder.finish()
            self._num_decoded_chars += len(text)
            self._read(self._stop.push(text) + self._stop.finish(), piece)
            if self.finished:
                return
        if self._splitter is not None:
            thought, text = self._splitter.finish()
            piece.reasoning += thought
            self._add(self._calls.push(text) if self._calls is not None else Parsed(text, []), piece)
        if self._calls is not None:
            self._add(self._calls.finish(), piece)
        if not self._stop.matched:
            piece.tokens += self._reports
        self._reports = []
        called = self._calls is not None and self._calls.num_calls > 0
        reason = "stop" if self._stop.matched else reason
        piece.finish_reason = "tool_calls" if called and reason == "stop" else reason
        self.finished = True

    @staticmethod
    def _add(parsed: Parsed, piece: Piece) -> None:
        piece.content += parsed.content
        piece.calls += parsed.calls
