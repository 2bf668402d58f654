"""Stop strings: text is released only once no stop string can begin in it any more."""


class StopStrings:
    """Feed text as it comes; what `push` returns is safe to show. After a match `matched` is True and
    nothing follows.

    The earliest beginning wins; of two that begin at the same place, the one that is complete first."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._longest = max((len(stop) for stop in stops), default=0)
        self._held = ""
        self.matched = False

    def push(self, text: str) -> str:
        if not self._stops or self.matched:
            return "" if self.matched else text
        held = self._held + text
        begins = [held.find(stop) for stop in self._stops]
        found = min((begin for begin in begins if begin >= 0), default=-1)
        keep_from = self._first_possible_begin(held)
        if found >= 0 and found <= keep_from:
            self.matched = True
            self._held = ""
            return held[:found]
        self._held = held[keep_from:]
        return held[:keep_from]

    def finish(self) -> str:
        """The text that was held back, now that nothing more comes; a complete match in it still counts."""
        held, self._held = self._held, ""
        begins = [held.find(stop) for stop in self._stops]
        found = min((begin for begin in begins if begin >= 0), default=-1)
        if found >= 0:
            self.matched = True
            return held[:found]
        return held

    def _first_possible_begin(self, held: str) -> int:
        """Where the first unfinished stop string might begin; the end if none does."""
        for start in range(max(0, len(held) - self._longest + 1), len(held)):
            tail = held[start:]
            if any(len(stop) > len(tail) and stop.startswith(tail) for stop in self._stops):
                return start
        return len(held)
