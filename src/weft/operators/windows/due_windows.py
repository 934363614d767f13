"""Due windows of queries in the cells of their predicates, as columns, and how each is to be found.

Where groups have a cell in most slices, a window is the same run of slices for every group, and is answered
from a grid. Where they have few, each group's cells are searched, so that sparse groups cost what they hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numba import njit

Due: TypeAlias = tuple[np.ndarray, np.ndarray | int]
"""After which instant windows are due, for each query, and until which; or both for each group."""

MIN_RUNS_PER_TURN = 1 << 22
"""Runs found in one turn, unless there are more cells: bounds memory."""

SEARCH_COST_ENTRIES = 16
"""Cost of a search, in entries of a grid filled."""

MAX_ENTRIES_PER_CELL = 8
"""Entries that a grid may have for each cell."""


class Region:
    """The cells of one predicate, ordered by group and time.

    ``bounds`` says where each group's cells begin, and the end; ``at`` has the slice of each cell, of those
    that start at ``edges``. A group may have several cells in a slice.
    """

    def __init__(self, bounds: np.ndarray, group: np.ndarray, at: np.ndarray, edges: np.ndarray) -> None:
        self.bounds, self.at, self.edges = bounds, at, edges
        self.groups = group[bounds[:-1]]

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def cells(self) -> int:
        """Return how many cells there are."""
        return int(self.bounds[-1] - self.bounds[0])

    @cached_property
    def starts(self) -> np.ndarray:
        """The start of each cell."""
        return self.edges[self.at]

    @cached_property
    def span(self) -> tuple[int, int]:
        """The starts of the first slice and of the last."""
        return (int(self.edges[0]), int(self.edges[-1])) if len(self.edges) else (0, 0)

    @cached_property
    def table(self) -> np.ndarray:
        """For every slice, and one more, where the cells of each group begin that are not before it."""
        table = np.empty((len(self.edges) + 1, len(self)), dtype=np.int64)
        _tabulate(self.bounds, self.at, table)
        return table


@dataclass(frozen=True, slots=True)
class WindowColumns:
    """The windows of some queries, as columns."""

    range: np.ndarray
    slide: np.ndarray
    offset: np.ndarray

    def take(self, queries: np.ndarray | slice) -> WindowColumns:
        """Return the windows of some of the queries."""
        return WindowColumns(self.range[queries], self.slide[queries], self.offset[queries])


@dataclass(frozen=True, slots=True)
class DueWindows:
    """Windows of some queries that are due in a region, each by its number.

    Where all groups are answered from a grid, ``first`` is the start of the first due window that may hold a
    cell, and ``count`` how many there are. Where groups are searched, ``count`` is -1.
    """

    regions: Sequence[Region]
    region: np.ndarray
    windows: WindowColumns
    due: Due
    first: np.ndarray
    count: np.ndarray

    def take(self, queries: np.ndarray | slice) -> DueWindows:
        """Return the due windows of some of the queries."""
        after, until = self.due
        due = self.due if isinstance(until, np.ndarray) else (after[queries], until)
        windows = self.windows.take(queries)
        return DueWindows(
            self.regions, self.region[queries], windows, due, self.first[queries], self.count[queries]
        )

    def turns(self, cells: int) -> Iterator[slice]:
        """Yield which of them to find at a time, for not too many runs; those of grids come first."""
        groups = np.array([len(region) for region in self.regions])
        ends = np.cumsum(np.maximum(self.count, 0) * groups[self.region])
        first, last, grids = 0, 0, int(np.sum(self.count >= 0))
        while first < grids:
            room = (ends[first - 1] if first else 0) + max(MIN_RUNS_PER_TURN, cells)
            last = max(int(np.searchsorted(ends[:grids], room, "right")), first + 1)
            yield slice(first, last)
            first = last
        if grids < len(ends):
            yield slice(grids, len(ends))


def plan_due_windows(
    regions: Sequence[Region], region: np.ndarray, windows: WindowColumns, due: Due
) -> DueWindows:
    """Decide how the windows of each query are to be found, in the region whose number is given for it.

    >>> region = Region(np.array([0, 2, 3]), np.array([7, 7, 9]), np.array([0, 2, 1]), np.array([0, 4, 6]))
    >>> windows = WindowColumns(*np.array([[6], [2], [0]]))
    >>> due_windows = plan_due_windows([region], np.array([0]), windows, (np.array([0]), 8))
    >>> due_windows.first.tolist(), due_windows.count.tolist()
    ([-4], [4])
    """
    after, until = due
    if isinstance(until, np.ndarray):
        searched = np.full(len(region), -1)
        return DueWindows(regions, region, windows, due, searched, searched)
    sizes = [(*r.span, len(r.edges), len(r), r.cells) for r in regions]
    oldest, newest, edges, groups, cells = np.array(sizes, dtype=np.int64).T
    length, slide, offset = windows.range, windows.slide, windows.offset
    first = np.maximum(oldest[region], after) - length + 1
    first += (offset - first) % slide
    count = np.maximum((np.minimum(until - length, newest[region]) - first) // slide + 1, 0)
    expected = np.bincount(region, weights=count * groups[region], minlength=len(regions))
    entries = edges * groups
    most_entries = np.minimum(MAX_ENTRIES_PER_CELL * cells, SEARCH_COST_ENTRIES * expected)
    sparse = (entries > most_entries) | (entries == 0)
    # Where windows by far outnumber slices, most of them hold nothing.
    outnumbered = count > edges[region] * (length // slide + 2)
    return DueWindows(regions, region, windows, due, first, np.where(sparse[region] | outnumbered, -1, count))


@njit(cache=True, nogil=True)
def _tabulate(bounds, at, table):  # type: ignore[no-untyped-def]
    last = table.shape[0]
    for g in range(bounds.size - 1):
        s = 0
        for cell in range(bounds[g], bounds[g + 1]):
            while s <= at[cell]:
                table[s, g] = cell
                s += 1
        while s < last:
            table[s, g] = bounds[g + 1]
            s += 1
