"""What queries ask of the cells of their predicates: due windows, as columns, and how each is to be found.

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

AT_ONCE = 1 << 22
"""Runs found at a time, at the least: bounds memory."""

SEARCH = 16
"""What a search costs, in entries of a grid filled."""

HOLES = 8
"""How many entries a grid may have for each cell."""


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
        """How many cells there are."""
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
class Windows:
    """The windows of some queries, as columns."""

    range: np.ndarray
    slide: np.ndarray
    offset: np.ndarray

    def take(self, some: np.ndarray | slice) -> Windows:
        """Those of some of the queries."""
        return Windows(self.range[some], self.slide[some], self.offset[some])


@dataclass(frozen=True, slots=True)
class Asked:
    """What some queries ask for: windows that are due in a region, each by its number.

    Where all groups are answered from a grid, ``first`` is the start of the first due window that may hold a
    cell, and ``count`` how many there are. Where groups are searched, ``count`` is -1.
    """

    regions: Sequence[Region]
    region: np.ndarray
    windows: Windows
    due: Due
    first: np.ndarray
    count: np.ndarray

    def take(self, some: np.ndarray | slice) -> Asked:
        """What some of the queries ask for."""
        after, until = self.due
        due = self.due if isinstance(until, np.ndarray) else (after[some], until)
        windows = self.windows.take(some)
        return Asked(self.regions, self.region[some], windows, due, self.first[some], self.count[some])

    def turns(self, cells: int) -> Iterator[slice]:
        """Which of them to find at a time, for not too many runs; those of grids come first."""
        groups = np.array([len(region) for region in self.regions])
        ends = np.cumsum(np.maximum(self.count, 0) * groups[self.region])
        first, last, grids = 0, 0, int(np.sum(self.count >= 0))
        while first < grids:
            room = (ends[first - 1] if first else 0) + max(AT_ONCE, cells)
            last = max(int(np.searchsorted(ends[:grids], room, "right")), first + 1)
            yield slice(first, last)
            first = last
        if grids < len(ends):
            yield slice(grids, len(ends))


def ask(regions: Sequence[Region], region: np.ndarray, windows: Windows, due: Due) -> Asked:
    """Decide how the windows of each query are to be found, in the region whose number is given for it.

    >>> region = Region(np.array([0, 2, 3]), np.array([7, 7, 9]), np.array([0, 2, 1]), np.array([0, 4, 6]))
    >>> windows = Windows(*np.array([[6], [2], [0]]))
    >>> asked = ask([region], np.array([0]), windows, (np.array([0]), 8))
    >>> asked.first.tolist(), asked.count.tolist()
    ([-4], [4])
    """
    after, until = due
    if isinstance(until, np.ndarray):
        nothing = np.full(len(region), -1)
        return Asked(regions, region, windows, due, nothing, nothing)
    sizes = [(*r.span, len(r.edges), len(r), r.cells) for r in regions]
    oldest, newest, edges, groups, cells = np.array(sizes, dtype=np.int64).T
    range, slide, offset = windows.range, windows.slide, windows.offset
    first = np.maximum(oldest[region], after) - range + 1
    first += (offset - first) % slide
    count = np.maximum((np.minimum(until - range, newest[region]) - first) // slide + 1, 0)
    hoped = np.bincount(region, weights=count * groups[region], minlength=len(regions))
    entries = edges * groups
    sparse = (entries > np.minimum(HOLES * cells, SEARCH * hoped)) | (entries == 0)
    # Where windows by far outnumber slices, most of them hold nothing.
    outnumbered = count > edges[region] * (range // slide + 2)
    return Asked(regions, region, windows, due, first, np.where(sparse[region] | outnumbered, -1, count))


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
