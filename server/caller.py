"""Who asks, and of what."""

from dataclasses import dataclass

from server.runtime import Runtime
from server.state import ServerState


@dataclass(frozen=True)
class Caller:
    state: ServerState
    runtime: Runtime
    tenant: str
    """Of the key that was given: queues and caches are kept apart by it."""
