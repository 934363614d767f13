"""Due windows as runs of whole slices, for all groups at once: what a grid (``weft.final.grid``) answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numba import njit

from weft.aggregates import Monoid
from weft.final.grid import answer_grid
from weft.final.registry import AUTO, ChosenTechnique
from weft.operators.keys import KeyIndex
from weft.operators.windows.due_windows import DueWindows, Region
from weft.operators.windows.runs import Runs, Searched


def find_runs(due_windows: DueWindows) -> Runs:
    """The runs of windows that are all to be found alike.

    >>> from weft.operators.windows.due_windows import WindowColumns, plan_due_windows
    >>> region = Region(np.array([0, 2, 3]), np.array([7, 7, 9]), np.array([0, 2, 1]), np.array([0, 4, 6]))
    >>> windows = WindowColumns(*np.array([[6], [2], [0]]))
    >>> runs = find_runs(plan_due_windows([region], np.array([0]), windows, (np.array([0]), 8)))
    >>> runs.start.tolist(), runs.group.tolist(), *(cells.tolist() for cells in runs.cells)
    ([-4, -2, 0, 0, 2, 2], [7, 7, 7, 9, 7, 9], [0, 0, 0, 2, 1, 2], [1, 1, 1, 3, 2, 3])
    """
    return Searched(due_windows) if due_windows.count[0] < 0 else Gridded(due_windows)


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
    def of(cls, due_windows: DueWindows, number: int) -> Instances:
        """Return those of the queries in the region of this number."""
        queries, region = np.flatnonzero(due_windows.region == number), due_windows.regions[number]
        count = due_windows.count[queries]
        query = np.repeat(queries, count)
        start = due_windows.first[query] + due_windows.windows.slide[query] * _ranks(count)
        end = start + due_windows.windows.range[query]
        begins, ends = np.searchsorted(region.edges, start), np.searchsorted(region.edges, end)
        covering = np.flatnonzero(begins < ends)
        return cls(region, query[covering], start[covering], end[covering], begins[covering], ends[covering])

    def rows(self, bounds: np.ndarray) -> np.ndarray:
        """Return where the answers of each begin, where those of its query do at ``bounds``."""
        count = np.bincount(self.query, minlength=len(bounds))
        return bounds[self.query] + _ranks(count) * len(self.region)

    def of_queries(self, chosen: np.ndarray) -> Instances:
        """Return those of the chosen queries."""
        if chosen.all():
            return self
        own = np.flatnonzero(chosen[self.query])
        columns = (self.query, self.start, self.end, self.begins, self.ends)
        return Instances(self.region, *(column[own] for column in columns))


def _ranks(counts: np.ndarray) -> np.ndarray:
    """The numbers from 0 to before each count, one after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


class Gridded(Runs):
    """Runs of whole slices, the same for all groups but for those that have no cell in them."""

    def __init__(self, due_windows: DueWindows) -> None:
        self._instances = [Instances.of(due_windows, number) for number in np.unique(due_windows.region)]
        self._sizes = np.zeros(len(due_windows.region), dtype=np.int64)
        for instances in self._instances:
            self._sizes += np.bincount(instances.query, minlength=len(self._sizes)) * len(instances.region)
        self._room = np.concatenate([[0], np.cumsum(self._sizes)])
        self.start, self.end = (np.empty(self._room[-1], dtype=np.int64) for _ in range(2))
        self._occupied: np.ndarray | None = None
        empty = 0
        for instances in self._instances:
            _fill(
                instances.start,
                instances.end,
                instances.rows(self._room),
                len(instances.region),
                self.start,
                self.end,
            )
            empty += _count_empty(instances.region.table, instances.begins, instances.ends)
        self.bounds = self._room
        if empty:
            occupied = np.ones(self._room[-1], dtype=np.bool_)
            for instances in self._instances:
                _mark_empty(
                    instances.region.table,
                    instances.begins,
                    instances.ends,
                    instances.rows(self._room),
                    occupied,
                )
            self._occupied = np.flatnonzero(occupied)
            self.start, self.end = self.start[self._occupied], self.end[self._occupied]
            self.bounds = np.searchsorted(self._occupied, self._room)

    @cached_property
    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        low, high = (np.empty(self._room[-1], dtype=np.int64) for _ in range(2))
        for instances in self._instances:
            _look_up(
                instances.region.table,
                instances.begins,
                instances.ends,
                instances.rows(self._room),
                low,
                high,
            )
        return (low, high) if self._occupied is None else (low[self._occupied], high[self._occupied])

    @cached_property
    def group(self) -> np.ndarray:
        group = np.empty(self._room[-1], dtype=np.int64)
        for instances in self._instances:
            _repeat(instances.region.groups, instances.rows(self._room), group)
        return group if self._occupied is None else group[self._occupied]

    def keys(self, index: KeyIndex) -> list[pa.Array]:
        if self._occupied is not None or len(self._instances) > 1:
            return super().keys(index)
        (instances,) = self._instances
        columns = index.decode(instances.region.groups)
        return [
            pa.concat_arrays([column] * max(len(instances.query), 1))[: self._room[-1]] for column in columns
        ]

    def combine(
        self, by: ChosenTechnique, monoid: Monoid, states: np.ndarray, query_ranges: Sequence[tuple[int, int]]
    ) -> np.ndarray:
        # A formula that a user wrote may fail on the neutral states of empty entries.
        if by.name != AUTO or not monoid.built_in:
            return super().combine(by, monoid, states, query_ranges)
        chosen = np.zeros(len(self._sizes), dtype=np.bool_)
        for first, last in query_ranges:
            chosen[first:last] = True
        room = np.concatenate([[0], np.cumsum(np.where(chosen, self._sizes, 0))])
        out = np.empty((room[-1], monoid.width), dtype=np.int64)
        for own in (instances.of_queries(chosen) for instances in self._instances):
            if len(own.query):
                region, windows = own.region, (own.begins, own.ends, own.rows(room))
                answer_grid(monoid, states, region.bounds, region.at, len(region.edges), windows, out)
        if self._occupied is None:
            return out
        occupied = [
            self._occupied[self.part(n, n + 1)] - self._room[n] + room[n]
            for n in np.flatnonzero(chosen).tolist()
        ]
        return out[self._occupied] if chosen.all() else out[np.concatenate(occupied)]


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
    """Count the groups that have no cell in a window, over all windows."""
    count = 0
    for w in range(begins.size):
        a, b = table[begins[w]], table[ends[w]]
        for g in range(a.size):
            count += a[g] == b[g]
    return count


@njit(cache=True, nogil=True)
def _mark_empty(table, begins, ends, rows, occupied):  # type: ignore[no-untyped-def]
    for w in range(begins.size):
        a, b = table[begins[w]], table[ends[w]]
        for g in range(a.size):
            occupied[rows[w] + g] = a[g] < b[g]


@njit(cache=True, nogil=True)
def _look_up(table, begins, ends, rows, low, high):  # type: ignore[no-untyped-def]
    for w in range(begins.size):
        a, b = table[begins[w]], table[ends[w]]
        for g in range(a.size):
            low[rows[w] + g], high[rows[w] + g] = a[g], b[g]
