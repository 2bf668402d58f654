"""Long work that holds the interpreter, beside the event loop and one piece at a time.

Such work gains nothing from a second thread: only one of them runs at once, and each more is another that the
event loop has to wait for. Two lanes, so that what is short does not stand behind what is long.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

LONG_BYTES = 1 << 20
"""Work on more than this is long."""

_SHORT = ThreadPoolExecutor(max_workers=1, thread_name_prefix="short")
_LONG = ThreadPoolExecutor(max_workers=1, thread_name_prefix="long")

T = TypeVar("T")


async def in_lane(num_bytes: int, work: Callable[[], T]) -> T:
    """What `work` returns or raises; num_bytes: how much it works on."""
    lane = _LONG if num_bytes > LONG_BYTES else _SHORT
    return await asyncio.get_running_loop().run_in_executor(lane, work)
