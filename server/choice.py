"""One answer in the making: from the engine's token events to what a client sees of it.

token ids -> text -> stop strings -> thought, content and tool calls. Streamed and whole answers are made of
the same pieces, so they can't differ. Knows neither JSON nor HTTP.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from engine.messages import TokensGenerated
from server.logprobs import TokenNames, TokenReport
from server.reader import Read, Reader, TagReader
from server.stop_strings import StopStrings
from server.tools.parser import ToolDelta


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
    """How answers of one request are read. `silent_ids` end an answer and are no text; `shown_ids` are text
    though they are special."""

    stop: tuple[str, ...] = ()
    silent_ids: frozenset[int] = frozenset()
    names: TokenNames | None = None
    """Given where log-probabilities are wanted."""
    make_reader: Callable[[], Reader] = TagReader
    single_tool_call: bool = False
    shown_ids: frozenset[int] = frozenset()


class Choice:
    """Feed it the events of one choice; after `finished` it takes no more."""

    def __init__(self, decoder: TextDecoder, reading: Reading) -> None:
        self._decoder = decoder
        self._reading = reading
        self._stop = StopStrings(reading.stop)
        self._reader = reading.make_reader()
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
        if self._reader.inside_thought:
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
        self._add(self._reader.push(text), piece)
        released = [report for report in self._reports if report.start < self._num_released_chars]
        piece.tokens += released
        del self._reports[: len(released)]
        if self._reading.single_tool_call and self._reader.num_complete:
            self.finished = True
            piece.finish_reason = "tool_calls"

    def _finish(self, reason: str, piece: Piece) -> None:
        if not self._stop.matched:
            text = self._decoder.finish()
            self._num_decoded_chars += len(text)
            self._read(self._stop.push(text) + self._stop.finish(), piece)
            if self.finished:
                return
        self._add(self._reader.finish(), piece)
        if not self._stop.matched:
            piece.tokens += self._reports
        self._reports = []
        reason = "stop" if self._stop.matched else reason
        piece.finish_reason = "tool_calls" if self._reader.num_calls and reason == "stop" else reason
        self.finished = True

    def _add(self, read: Read, piece: Piece) -> None:
        piece.content += read.content
        piece.reasoning += read.reasoning
        single = self._reading.single_tool_call
        piece.calls += [call for call in read.calls if not (single and call.number)]
