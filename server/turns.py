"""A queue in which owners take turns: the first item of each, then the next of each.

Who brings one waits for one of each other's, however many they brought.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Turns(Generic[Item]):
    """Not thread-safe. Of one owner's, first come first served."""

    def __init__(self) -> None:
        self._queues: OrderedDict[Hashable, deque[Item]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._queues)

    def append(self, owner: Hashable, item: Item) -> None:
        self._queues.setdefault(owner, deque()).append(item)

    @property
    def first(self) -> Item:
        """Whose turn it is. StopIteration if there is none."""
        return next(iter(self._queues.values()))[0]

    def pop(self) -> Item:
        """Take the first. KeyError if there is none."""
        owner, queue = self._queues.popitem(last=False)
        item = queue.popleft()
        if queue:
            self._queues[owner] = queue
        return item

    def discard(self, owner: Hashable, item: Item) -> None:
        """Take it out, if it is still in."""
        queue = self._queues.get(owner, deque())
        if item in queue:
            queue.remove(item)
            if not queue:
                del self._queues[owner]
