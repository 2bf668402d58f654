"""A step as tiles of query rows and parts of keys, in plain numbers: what the GPU's programs are given.

Knows neither tensors nor kernels.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from engine.attention.base import StepPlan, step_ranges


class Work(NamedTuple):
    """What one launch is given, int32.

    items [n, 8]: first row, rows, begin of the block table, first key, key behind the last, nothing.
    num_items [1]: n. joins [joined rows, 4]: row, first part row, number of parts, nothing; where keys aren't
    shared out there is none. Item i has the part rows from i * queries on.
    """

    num_items: np.ndarray
    joins: np.ndarray
    items: np.ndarray


class SightPlan(NamedTuple):
    """A step under one window: what each row sees (see step_sight), and the launches, each with the kind of
    its tiles."""

    sight: np.ndarray
    launches: list[tuple[int, Work]]


class HostPlan(NamedTuple):
    """A step before it is on the device. slots: int32 [rows]. tables: see StepPlan. sights: by window."""

    slots: np.ndarray
    sights: dict[int | None, SightPlan]
    tables: np.ndarray

    def arrays(self) -> list[np.ndarray]:
        """All of it, in the order in which `triton_backend` takes it apart."""
        sights = (
            [sight, *chain(*(work for _, work in launches))] for sight, launches in self.sights.values()
        )
        return [self.slots, *chain(*sights), self.tables]


class Tiles:
    """The step's rows cut into tiles of one sequence each, in the order of the rows.

    queries: for each kind of tile how many rows it takes. kinds: for each chunk the kind of its tiles.
    """

    def __init__(self, step: StepPlan, queries: Sequence[int], kinds: Sequence[int]) -> None:
        self.queries, kind_of = queries, np.array(kinds, dtype=np.int32)
        most = np.array(queries, dtype=np.int32)[kind_of]
        num_tiles = -(-step.sizes // most)
        chunk = np.repeat(np.arange(len(step.chunks)), num_tiles)
        start = (np.arange(len(chunk)) - (num_tiles.cumsum() - num_tiles)[chunk]) * most[chunk]
        self.row = np.array(step.row_starts)[chunk] + start
        self.count = np.minimum(step.sizes[chunk] - start, most[chunk])
        self.table, self.kind = step.table_starts[chunk], kind_of[chunk]

    def work(
        self, kind: int, sight: np.ndarray, part_keys: int | None = None, part_rows: int = 0
    ) -> list[Work]:
        """Tiles of one kind, as launches one after the other: each has at most `part_rows` part rows, so that
        the next may take the place of what the one before has joined.

        sight: of every row of the step. part_keys: how many keys a program attends at most, from a multiple
        of it on; some times as many where a tile alone would have too many part rows. None: all keys.
        part_rows: at least twice the rows of a tile.
        """
        first = np.minimum.reduceat(sight[:, 0], self.row)
        until = np.maximum.reduceat(sight[:, 1], self.row)
        mine = self.kind == kind
        tiles = np.stack([x[mine] for x in (self.row, self.count, self.table, first, until)])
        if part_keys is None:
            return [_work(_fields(8, *tiles), _fields(4, tiles[0, :0]))]
        most = part_rows // self.queries[kind]
        # One part less, since the first may begin with keys that nobody sees.
        part_keys_of = part_keys * -(-(tiles[4] - tiles[3]) // (part_keys * (most - 1)))
        ends = np.cumsum(-(-tiles[4] // part_keys_of) - tiles[3] // part_keys_of)
        launches, done = [], 0
        while done < len(ends):
            before = ends[done - 1] if done else 0
            launch = slice(done, int(np.searchsorted(ends, before + most, side="right")))
            launches.append(_shared_out(tiles[:, launch], part_keys_of[launch], self.queries[kind]))
            done = launch.stop
        return launches


def _shared_out(tiles: np.ndarray, part_keys: np.ndarray, queries: int) -> Work:
    """tiles [5, n]: first row, rows, begin of the block table, first key, key behind the last. part_keys [n]:
    where each one's keys are cut."""
    row, count, table, first, until = tiles
    first_part = first // part_keys
    num_parts = -(-until // part_keys) - first_part
    first_item = np.cumsum(num_parts) - num_parts
    tile = np.repeat(np.arange(len(row)), num_parts)
    part = (first_part - first_item)[tile] + np.arange(len(tile))
    begin = np.maximum(first[tile], part * part_keys[tile])
    end = np.minimum(until[tile], (part + 1) * part_keys[tile])
    items = _fields(8, row[tile], count[tile], table[tile], begin, end)
    owner = np.repeat(np.arange(len(row)), count)
    within = np.arange(len(owner)) - (np.cumsum(count) - count)[owner]
    part_row = first_item[owner] * queries + within
    return _work(items, _fields(4, row[owner] + within, part_row, num_parts[owner]))


def _work(items: np.ndarray, joins: np.ndarray) -> Work:
    return Work(np.array([len(items)], dtype=np.int32), joins, items)


def step_sight(step: StepPlan, window: int | None) -> np.ndarray:
    """int32 [rows, 2]: each row sees the keys [first, until) of its sequence. ValueError: see key_ranges."""
    return np.stack(step_ranges(step.chunks, window), axis=1)


def _fields(width: int, *columns: np.ndarray) -> np.ndarray:
    table = np.zeros((len(columns[0]), width), dtype=np.int32)
    for index, column in enumerate(columns):
        table[:, index] = column
    return table
