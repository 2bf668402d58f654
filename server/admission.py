"""Who may enter the engine, and who waits: bounded, fair between tenants, and never for longer than promised.

The engine batches whatever it holds; it does not know tenants. So at most `capacity` sequences are inside
at once, and the others wait here, one queue for each tenant, served in turn. Waiting happens before any
media is read."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from server.errors import Unavailable


class Admission:
    """Protocol: `async with admission.place(tenant, weight)` around everything that a request does."""

    def __init__(self, capacity: int, max_queue: int, timeout_s: float) -> None:
        self._capacity = capacity
        self._max_queue = max_queue
        self._timeout_s = timeout_s
        self._queues: OrderedDict[str, deque[tuple[asyncio.Future[None], int]]] = OrderedDict()
        self.num_inside = 0
        """Sequences (choices), not requests."""

    @property
    def num_waiting(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def check_queue(self, tenant: str) -> None:
        """Unavailable if a request that came now would find no place and the queue full: before its body is
        read."""
        if self.num_inside >= self._capacity:
            self._check_room(tenant)

    @asynccontextmanager
    async def place(self, tenant: str, weight: int) -> AsyncIterator[None]:
        """Wait for a place for `weight` sequences. Unavailable if the queue is full or the wait too long."""
        weight = min(weight, self._capacity)
        await self._enter(tenant, weight)
        try:
            yield
        finally:
            self.num_inside -= weight
            self._admit()

    async def _enter(self, tenant: str, weight: int) -> None:
        if not self._queues and self.num_inside + weight <= self._capacity:
            self.num_inside += weight
            return
        self._check_room(tenant)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (turn, weight)
        self._queues.setdefault(tenant, deque()).append(entry)
        try:
            async with asyncio.timeout(self._timeout_s):
                await turn
        except BaseException as error:
            self._withdraw(tenant, entry)
            if isinstance(error, TimeoutError):
                raise Unavailable(
                    f"No place became free within {self._timeout_s:g} s; try again later."
                ) from None
            raise

    def _check_room(self, tenant: str) -> None:
        """Others can't fill the queue for a tenant that has less than its share in it."""
        share = self._max_queue // len(self._queues.keys() | {tenant})
        if self.num_waiting >= self._max_queue and len(self._queues.get(tenant, ())) >= share:
            raise Unavailable("The server's queue is full; try again shortly.")

    def _withdraw(self, tenant: str, entry: tuple[asyncio.Future[None], int]) -> None:
        """Leave the queue, or give the place back if it was granted in the same moment."""
        turn, weight = entry
        if turn.done() and not turn.cancelled():
            self.num_inside -= weight
        elif (queue := self._queues.get(tenant)) is not None and entry in queue:
            queue.remove(entry)
            if not queue:
                del self._queues[tenant]
        self._admit()

    def _admit(self) -> None:
        """Let in whoever fits, one tenant after the other. A large request at the head is waited for, not
        passed."""
        while self._queues:
            tenant, queue = next(iter(self._queues.items()))
            turn, weight = queue[0]
            if self.num_inside + weight > self._capacity:
                return
            queue.popleft()
            self._queues.move_to_end(tenant)
            if not queue:
                del self._queues[tenant]
            if not turn.done():
                self.num_inside += weight
                turn.set_result(None)
