"""Separates what a model thinks from what it answers, for models whose tokenizer has both think tokens.

The text between `<think>` and `</think>` at the answer's beginning becomes `reasoning_content`. A template
may itself write the opening token at the end of the prompt; then the answer begins inside.
"""

from collections.abc import Sequence
from typing import NamedTuple

from server.markers import MAX_HELD, unfinished

OPEN, CLOSE = "<think>", "</think>"


class ThinkTokens(NamedTuple):
    """Token ids of OPEN and CLOSE."""

    open: int
    close: int

    def opened_by(self, prompt_ids: Sequence[int]) -> bool:
        """True if the prompt ends inside a thought."""
        tail = list(prompt_ids[-8:])
        return self.open in tail and self.close not in tail[tail.index(self.open) :]


class Thought(NamedTuple):
    reasoning: str
    content: str


class ReasoningSplitter:
    """Feed text as it comes; a tag is never shown, nor the blank lines around it."""

    def __init__(self, inside: bool) -> None:
        self._held = ""
        self._state = "inside" if inside else "before"
        self._trim = inside

    @property
    def inside(self) -> bool:
        return self._state == "inside"

    def push(self, text: str) -> Thought:
        self._held += text
        reasoning = ""
        if self._state == "before" and not self._opened():
            return Thought("", "")
        if self._state == "inside":
            reasoning = self._inside()
        return Thought(reasoning, self._after() if self._state == "after" else "")

    def finish(self) -> Thought:
        held, self._held = self._held, ""
        return Thought(held, "") if self._state == "inside" else Thought("", held)

    def _opened(self) -> bool:
        """True once it is known whether the answer begins with a thought."""
        start = self._held.lstrip()
        if start != OPEN and OPEN.startswith(start) and len(self._held) <= MAX_HELD:
            return False
        if start.startswith(OPEN):
            self._state, self._held, self._trim = "inside", start.removeprefix(OPEN), True
        else:
            self._state = "after"
        return True

    def _inside(self) -> str:
        held = self._held.lstrip("\n") if self._trim else self._held
        thought, close, rest = held.partition(CLOSE)
        if close:
            self._state, self._held, self._trim = "after", rest, True
            return thought
        end = unfinished(held, CLOSE)
        self._held = held[end:]
        self._trim = self._trim and end == 0
        return held[:end]

    def _after(self) -> str:
        text = self._held.lstrip("\n") if self._trim else self._held
        self._trim = self._trim and not text
        self._held = ""
        return text
