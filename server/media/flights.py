"""Single flight: who asks for what is already being made waits for it. Knows nothing of what is made."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class _Flight(Generic[Result]):
    def __init__(self, task: asyncio.Task[Result]) -> None:
        self.task = task
        self.num_waiters = 0


class Flights(Generic[Result]):
    """One flight a name. A waiter that is cancelled leaves the others theirs, also if it was the first; a
    flight that nobody waits for any more is cancelled. A failure reaches all waiters and is not
    remembered."""

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[Result]] = {}

    def __len__(self) -> int:
        return len(self._flights)

    async def join(self, name: Hashable, start: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        flight = self._flights.get(name)
        if flight is None:
            flight = self._flights[name] = _Flight(asyncio.create_task(start()))
            flight.task.add_done_callback(lambda _, made=flight: self._land(name, made))
        flight.num_waiters += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.num_waiters -= 1
            if not flight.num_waiters:
                self._land(name, flight)
                flight.task.cancel()

    def _land(self, name: Hashable, flight: _Flight[Result]) -> None:
        if self._flights.get(name) is flight:
            del self._flights[name]
        if flight.task.done() and not flight.task.cancelled():
            flight.task.exception()  # marks it as seen: its waiters may all be gone
