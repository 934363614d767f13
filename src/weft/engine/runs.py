"""Due windows as runs of neighbouring cells, found for all queries and groups of a view at once.

Where groups have a cell in most slices, a window is the same run of slices for every group, and is answered
from a grid (``weft.final.grid``). Where they have few, each group's cells are searched, so that sparse groups
cost what they hold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numba import njit

from weft.aggregates import Monoid
from weft.engine.keys import KeyIndex
from weft.final.grid import answer_grid
from weft.final.registry import AUTO, Choice

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


class Runs(ABC):
    """The due windows of some queries that hold a row, by query and time: their starts and ends.

    Those of query n are from ``bounds[n]`` to ``bounds[n + 1]``.
    """

    start: np.ndarray
    end: np.ndarray
    bounds: np.ndarray

    def part(self, first: int, last: int) -> slice:
        """Where the runs of these queries are."""
        return slice(int(self.bounds[first]), int(self.bounds[last]))

    @property
    @abstractmethod
    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        """The first cell of each run, and the one after its last."""

    @property
    @abstractmethod
    def group(self) -> np.ndarray:
        """The group of each run."""

    def keys(self, index: KeyIndex) -> list[pa.Array]:
        """The columns of the keys of their groups."""
        return index.decode(self.group)

    def combine(
        self, by: Choice, monoid: Monoid, states: np.ndarray, some: Sequence[tuple[int, int]]
    ) -> np.ndarray:
        """One state per run of these queries, each from a first to before a last."""
        low, high = self.cells
        if sum(last - first for first, last in some) < len(self.bounds) - 1:
            low, high = (np.concatenate([cells[self.part(*each)] for each in some]) for cells in (low, high))
        return by.answer(monoid, states, low, high)


def find_runs(asked: Asked) -> Runs:
    """The runs of windows that are all to be found alike.

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


class Searched(Runs):
    """Runs found group by group, brought into the order of time."""

    def __init__(self, asked: Asked) -> None:
        found = [_search(asked, query) for query in range(len(asked.region))]
        low, high, group, self.start, self.end = (np.concatenate(column) for column in zip(*found))
        self._cells, self._group = (low, high), group
        self.bounds = np.cumsum([0, *(len(low) for low, *_ in found)])

    @property
    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        return self._cells

    @property
    def group(self) -> np.ndarray:
        return self._group


def _search(asked: Asked, query: int) -> tuple[np.ndarray, ...]:
    """Cells, group and bounds of the runs of one query."""
    region, windows = asked.regions[asked.region[query]], asked.windows
    after, until = asked.due
    if isinstance(until, np.ndarray):
        after, until = after[region.groups], until[region.groups]
    else:
        after, until = (np.full(len(region), each, np.int64) for each in (after[query], until))
    window = (windows.range[query], windows.slide[query], windows.offset[query])
    shape = (region.bounds, region.starts, *window, after, until)
    nothing = np.zeros(0, dtype=np.int64)
    count = _runs(*shape, nothing, nothing, nothing, nothing)
    low, high, group, start = (np.empty(count, dtype=np.int64) for _ in range(4))
    _runs(*shape, low, high, group, start)
    order = np.argsort(start, kind="stable")
    start = start[order]
    return low[order], high[order], region.groups[group[order]], start, start + windows.range[query]


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


@njit(cache=True, nogil=True)
def _first_from(starts, at, last, t):  # type: ignore[no-untyped-def]
    """The first cell from ``at`` on that starts at ``t`` or later; ``last`` where none does.

    Steps double, for a window may slide by one cell or by thousands.
    """
    step = 1
    while at < last and starts[at] < t:
        before = at
        at += step
        step *= 2
        if at >= last or starts[at] >= t:
            # It is after ``before``, and at most ``at``.
            low, high = before, min(at, last)
            while high - low > 1:
                middle = (low + high) >> 1
                if starts[middle] < t:
                    low = middle
                else:
                    high = middle
            return high
    return at


@njit(cache=True, nogil=True)
def _runs(bounds, starts, range_, slide, offset, afters, untils, low, high, group, start):  # type: ignore[no-untyped-def]
    """Count the runs, and write them where the outputs have room; windows without a cell are skipped."""
    count = 0
    for g in range(bounds.size - 1):
        first, last = bounds[g], bounds[g + 1]
        after, until = afters[g], untils[g]
        a = b = first
        # The first window that holds the group's first cell, or the first that is due.
        t = starts[first]
        w = t - range_ + 1 + (offset - (t - range_ + 1)) % slide
        if after > np.int64(-4611686018427387904) and w + range_ <= after:
            w = after - range_ + 1 + (offset - (after - range_ + 1)) % slide
        while w + range_ <= until:
            a = _first_from(starts, a, last, w)
            if a == last:
                break
            if starts[a] >= w + range_:
                # No cell in this window: go on to the first window that holds the next cell.
                t = starts[a]
                w = t - range_ + 1 + (offset - (t - range_ + 1)) % slide
                if w > t:
                    # Between two hopping windows: this cell is in none.
                    a += 1
                    if a < last:
                        t = starts[a]
                        w = t - range_ + 1 + (offset - (t - range_ + 1)) % slide
                        continue
                    break
                continue
            b = _first_from(starts, max(a, b), last, w + range_)
            if low.size:
                low[count], high[count], group[count], start[count] = a, b, g, w
            count += 1
            w += slide
    return count
