"""The server as one object: settings, what is loaded, who waits, and whether it still takes work."""

from server.admission import Admission
from server.errors import Unavailable
from server.grammar_trials import GrammarTrials
from server.open_bodies import OpenBodies
from server.runtime import Runtime
from server.settings import Settings
from server.telemetry import Telemetry

STALLED_S = 30.0
"""No sign of life from the engine for this long, busy or idle: the server no longer says that it is
ready."""


class ServerState:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.runtime: Runtime | None = None
        self.telemetry = Telemetry()
        self.admission = Admission(
            settings.max_num_seqs + _spare_places(settings.max_num_seqs),
            settings.max_queue,
            settings.queue_timeout,
        )
        # Whatever the budget, one longest body must fit.
        self.bodies = OpenBodies(max(settings.max_open_body_bytes, settings.max_body_bytes))
        self.grammars = GrammarTrials()
        self.draining = False
        self.num_loads = 0
        """Times that a model was loaded: more than one if the engine died in between."""

    def serving(self) -> Runtime:
        """What is loaded. Unavailable while loading, draining, or when the engine is gone."""
        reason = self._why_not_serving()
        if reason is not None:
            raise Unavailable(f"The server is {reason}.", code="server_unavailable")
        assert self.runtime is not None
        return self.runtime

    def why_not_ready(self) -> str | None:
        """As `serving`, and the engine makes progress."""
        reason = self._why_not_serving()
        if reason is None and self.runtime is not None:
            silent_s = self.runtime.engine.seconds_since_progress()
            if silent_s > min(STALLED_S, self.settings.engine_timeout):
                return "stalled"
        return reason

    def _why_not_serving(self) -> str | None:
        if self.draining:
            return "draining"
        if self.runtime is None:
            return "loading"
        return None if self.runtime.engine.alive else "without an engine"


def _spare_places(max_num_seqs: int) -> int:
    """Sequences that may already wait inside the engine, so that a free place there is taken in the very
    next step."""
    return max(2, max_num_seqs // 8)
