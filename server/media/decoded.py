"""Decoded pictures and sounds in memory, being made or kept for their preparation, under one byte budget.

Protocol: `reserve` before decoding; then either `keep` (the reservation goes with the item) or `release`.
`take` hands item and reservation back. Kept items are a convenience: whoever needs room drops the oldest of
them, and they are decoded anew. So nobody waits while holding what another waits for.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, NamedTuple

from server.turns import Turns


class Kept(NamedTuple):
    item: Any
    num_bytes: int


class DecodedStore:
    """Event-loop only. used_bytes: all reservations, kept items included."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()
        self._waiting: Turns[tuple[int, asyncio.Future[None]]] = Turns()

    async def reserve(self, num_bytes: int, tenant: str = "") -> int:
        """Wait for room; tenants take turns. Returns what was reserved: an item larger than all there is gets
        all there is, and is alone."""
        num_bytes = min(num_bytes, self.capacity_bytes)
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(tenant, (num_bytes, granted))
        self._grant()
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self.release(num_bytes)
            else:
                self._waiting.discard(tenant, (num_bytes, granted))
                self._grant()
            raise
        return num_bytes

    def release(self, num_bytes: int) -> None:
        self.used_bytes -= num_bytes
        self._grant()

    def keep(self, name: Hashable, item: Any, num_bytes: int) -> None:
        """num_bytes: the reservation that goes with the item."""
        self.drop(name)
        self._kept[name] = Kept(item, num_bytes)
        self._grant()

    def take(self, name: Hashable) -> Kept | None:
        """The item and its reservation, which is the caller's from now on."""
        return self._kept.pop(name, None)

    def drop(self, name: Hashable) -> None:
        if kept := self._kept.pop(name, None):
            self.release(kept.num_bytes)

    def _grant(self) -> None:
        while self._waiting:
            num_bytes, granted = self._waiting.first
            while self._kept and self.used_bytes + num_bytes > self.capacity_bytes:
                self.used_bytes -= self._kept.popitem(last=False)[1].num_bytes
            if self.used_bytes + num_bytes > self.capacity_bytes:
                return
            self._waiting.pop()
            if not granted.cancelled():
                self.used_bytes += num_bytes
                granted.set_result(None)
