"""Several prompts of one request, answered all at once."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from server.choice import Piece
from server.generation import Answering

Numbered = tuple[int, Piece]
_MOST_WAITING = 256
"""Pieces that a slow reader may leave behind here; the engine's own bound comes after it."""


async def pieces_of(answerings: Sequence[Answering]) -> AsyncGenerator[Numbered, None]:
    """(choice, piece) as they come, choices numbered on from prompt to prompt. Raises what the first of them
    raises. Closing it early aborts all of them."""
    if len(answerings) == 1:  # a token costs one wake-up less
        async with aclosing(answerings[0].pieces()) as pieces:
            async for numbered in pieces:
                yield numbered
        return
    arrived: asyncio.Queue[Numbered | Exception | None] = asyncio.Queue(_MOST_WAITING)
    feeds, first = [], 0
    for answering in answerings:
        feeds.append(asyncio.ensure_future(_feed(answering, first, arrived)))
        first += len(answering.choices)
    try:
        num_left = len(feeds)
        while num_left:
            found = await arrived.get()
            if isinstance(found, Exception):
                raise found
            if found is None:
                num_left -= 1
            else:
                yield found
    finally:
        for feed in feeds:
            feed.cancel()
        await asyncio.gather(*feeds, return_exceptions=True)


async def _feed(
    answering: Answering, first: int, arrived: "asyncio.Queue[Numbered | Exception | None]"
) -> None:
    try:
        async with aclosing(answering.pieces()) as pieces:
            async for choice, piece in pieces:
                await arrived.put((first + choice, piece))
    except Exception as error:
        await arrived.put(error)
    else:
        await arrived.put(None)
