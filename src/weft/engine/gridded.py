"""Due windows as runs of whole slices, for all groups at once: what a grid (``weft.final.grid``) answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numba import njit

from weft.aggregates import Monoid
from weft.engine.asked import Asked, Region
from weft.engine.keys import KeyIndex
from weft.engine.runs import Runs, Searched
from weft.final.grid import answer_grid
from weft.final.registry import AUTO, Choice


def find_runs(asked: Asked) -> Runs:
    """The runs of windows that are all to be found alike.

    >>> from weft.engine.asked import Windows, ask
    >>> region = Region(np.array([0, 2, 3]), np.array([7, 7, 9]), np.array([0, 2, 1]), np.array([0, 4, 6]))
    >>> windows = Windows(*np.array([[6], [2], [0]]))
    >>> runs = find_runs(ask([region], np.array([0]), windows, (np.array([0]), 8)))
    >>> runs.start.tolist(), runs.group.tolist(), *(cells.tolist() for cells in runs.cells)
    ([-4, -2, 0, 0, 2, 2], [7, 7, 7, 9, 7, 9], [0, 0, 0, 2, 1, 2], [1, 1, 1, 3, 2, 3])
    """
    return Searched(asked) if asked.count[0] < 0 else Gridded(asked)


@dataclass(slots=True)
class Instances:
    """The instances of windows in one region that cover a slice: of which query, from where to where."""

    region: Region
    query: np.ndarray
    start: np.ndarray
    end: np.ndarray
    begins: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, asked: Asked, number: int) -> Instances:
        """Those of the queries in the region of this number."""
        mine, region = np.flatnonzero(asked.region == number), asked.regions[number]
        count = asked.count[mine]
        query = np.repeat(mine, count)
        start = asked.first[query] + asked.windows.slide[query] * _ranks(count)
        end = start + asked.windows.range[query]
        begins, ends = np.searchsorted(region.edges, start), np.searchsorted(region.edges, end)
        some = np.flatnonzero(begins < ends)
        return cls(region, query[some], start[some], end[some], begins[some], ends[some])

    def rows(self, bounds: np.ndarray) -> np.ndarray:
        """Where the answers of each begin, where those of its query do at ``bounds``."""
        count = np.bincount(self.query, minlength=len(bounds))
        return bounds[self.query] + _ranks(count) * len(self.region)

    def of_queries(self, wanted: np.ndarray) -> Instances:
        """Those of the queries that are wanted."""
        if wanted.all():
            return self
        some = np.flatnonzero(wanted[self.query])
        columns = (self.query, self.start, self.end, self.begins, self.ends)
        return Instances(self.region, *(column[some] for column in columns))


def _ranks(counts: np.ndarray) -> np.ndarray:
    """The numbers from 0 to before each count, one after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


class Gridded(Runs):
    """Runs of whole slices, the same for all groups but for those that have no cell in them."""

    def __init__(self, asked: Asked) -> None:
        self._instances = [Instances.of(asked, number) for number in np.unique(asked.region)]
        self._sizes = np.zeros(len(asked.region), dtype=np.int64)
        for each in self._instances:
            self._sizes += np.bincount(each.query, minlength=len(self._sizes)) * len(each.region)
        self._room = np.concatenate([[0], np.cumsum(self._sizes)])
        self.start, self.end = (np.empty(self._room[-1], dtype=np.int64) for _ in range(2))
        self._kept: np.ndarray | None = None
        empty = 0
        for each in self._instances:
            _fill(each.start, each.end, each.rows(self._room), len(each.region), self.start, self.end)
            empty += _count_empty(each.region.table, each.begins, each.ends)
        self.bounds = self._room
        if empty:
            kept = np.ones(self._room[-1], dtype=np.bool_)
            for each in self._instances:
                _mark_empty(each.region.table, each.begins, each.ends, each.rows(self._room), kept)
            self._kept = np.flatnonzero(kept)
            self.start, self.end = self.start[self._kept], self.end[self._kept]
            self.bounds = np.searchsorted(self._kept, self._room)

    @cached_property
    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        low, high = (np.empty(self._room[-1], dtype=np.int64) for _ in range(2))
        for each in self._instances:
            _look_up(each.region.table, each.begins, each.ends, each.rows(self._room), low, high)
        return (low, high) if self._kept is None else (low[self._kept], high[self._kept])

    @cached_property
    def group(self) -> np.ndarray:
        group = np.empty(self._room[-1], dtype=np.int64)
        for each in self._instances:
            _repeat(each.region.groups, each.rows(self._room), group)
        return group if self._kept is None else group[self._kept]

    def keys(self, index: KeyIndex) -> list[pa.Array]:
        if self._kept is not None or len(self._instances) > 1:
            return super().keys(index)
        (each,) = self._instances
        columns = index.decode(each.region.groups)
        return [pa.concat_arrays([column] * max(len(each.query), 1))[: self._room[-1]] for column in columns]

    def combine(
        self, by: Choice, monoid: Monoid, states: np.ndarray, some: Sequence[tuple[int, int]]
    ) -> np.ndarray:
        # A formula that a user wrote may fail on the neutral states of empty entries.
        if by.name != AUTO or not monoid.built_in:
            return super().combine(by, monoid, states, some)
        wanted = np.zeros(len(self._sizes), dtype=np.bool_)
        for first, last in some:
            wanted[first:last] = True
        room = np.concatenate([[0], np.cumsum(np.where(wanted, self._sizes, 0))])
        out = np.empty((room[-1], monoid.width), dtype=np.int64)
        for each in (instances.of_queries(wanted) for instances in self._instances):
            if len(each.query):
                region, windows = each.region, (each.begins, each.ends, each.rows(room))
                answer_grid(monoid, states, region.bounds, region.at, len(region.edges), windows, out)
        if self._kept is None:
            return out
        kept = [
            self._kept[self.part(n, n + 1)] - self._room[n] + room[n] for n in np.flatnonzero(wanted).tolist()
        ]
        return out[self._kept] if wanted.all() else out[np.concatenate(kept)]


@njit(cache=True, nogil=True)
def _fill(starts, ends, rows, groups, start, end):  # type: ignore[no-untyped-def]
    """The times of all windows, for so many groups each."""
    for w in range(rows.size):
        for row in range(rows[w], rows[w] + groups):
            start[row], end[row] = starts[w], ends[w]


@njit(cache=True, nogil=True)
def _repeat(groups, rows, group):  # type: ignore[no-untyped-def]
    for w in range(rows.size):
        for g in range(groups.size):
            group[rows[w] + g] = groups[g]


@njit(cache=True, nogil=True)
def _count_empty(table, begins, ends):  # type: ignore[no-untyped-def]
    """How many groups have no cell in a window, over all windows."""
    count = 0
    for w in range(begins.size):
        a, b = table[begins[w]], table[ends[w]]
        for g in range(a.size):
            count += a[g] == b[g]
    return count


@njit(cache=True, nogil=True)
def _mark_empty(table, begins, ends, rows, kept):  # type: ignore[no-untyped-def]
    for w in range(begins.size):
        a, b = table[begins[w]], table[ends[w]]
        for g in range(a.size):
            kept[rows[w] + g] = a[g] < b[g]


@njit(cache=True, nogil=True)
def _look_up(table, begins, ends, rows, low, high):  # type: ignore[no-untyped-def]
    for w in range(begins.size):
        a, b = table[begins[w]], table[ends[w]]
        for g in range(a.size):
            low[rows[w] + g], high[rows[w] + g] = a[g], b[g]
