"""Due windows as runs of neighbouring cells, found for all queries and groups of a view at once.

Where groups have a cell in many slices, one table says where each group's cells of each slice begin: a
window is then two look-ups per group, whatever its length. Where they have few, each group's cells are
searched, so that sparse groups cost what they hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numba import njit

from weft.query import Window

Due: TypeAlias = tuple[np.ndarray | int, np.ndarray | int]
"""After which instant windows are due, and until which, for all groups or for each."""

AT_ONCE = 1 << 22
"""Runs found at a time, at the least: bounds memory."""

SEARCH = 16
"""What a search costs, in entries of a table filled."""


@dataclass(frozen=True, slots=True)
class Runs:
    """The due windows of some queries that hold a row, by query and time: cell bounds, group, window bounds.

    Those of query n are from ``bounds[n]`` to ``bounds[n + 1]``.
    """

    low: np.ndarray
    high: np.ndarray
    group: np.ndarray
    start: np.ndarray
    end: np.ndarray
    bounds: np.ndarray

    def part(self, first: int, last: int) -> slice:
        """Where the runs of these queries are."""
        return slice(int(self.bounds[first]), int(self.bounds[last]))


class Region:
    """The cells of one predicate, ordered by group and time.

    ``bounds`` says where each group's cells begin, and the end; ``at`` has the slice of each cell, of those
    that start at ``edges``.
    """

    def __init__(self, bounds: np.ndarray, group: np.ndarray, at: np.ndarray, edges: np.ndarray) -> None:
        self.bounds, self.at, self.edges = bounds, at, edges
        self.groups = group[bounds[:-1]]

    def __len__(self) -> int:
        return len(self.groups)

    @cached_property
    def starts(self) -> np.ndarray:
        """The start of each cell."""
        return self.edges[self.at]

    @cached_property
    def table(self) -> np.ndarray:
        """For every slice, and one more, where the cells of each group begin that are not before it."""
        table = np.empty((len(self.edges) + 1, len(self)), dtype=np.int64)
        _tabulate(self.bounds, self.at, table)
        return table

    def windows(self, window: Window, due: Due) -> np.ndarray | None:
        """The starts of the due windows that may hold a cell; None where groups must be searched."""
        after, until = due
        if isinstance(after, np.ndarray) or isinstance(until, np.ndarray) or not len(self.edges):
            return None
        first = max(int(self.edges[0]), int(after)) - window.range + 1
        first += (window.offset - first) % window.slide
        last = min(int(until) - window.range, int(self.edges[-1]))
        count = max((last - first) // window.slide + 1, 0)
        if count > len(self.edges) * (window.range // window.slide + 2):
            return None  # most of them would hold nothing
        return first + window.slide * np.arange(count)


@dataclass(slots=True)
class Asked:
    """A window that is due in a region, and the starts of its instances, where they are looked up."""

    region: Region
    window: Window
    due: Due
    starts: np.ndarray | None

    @property
    def most(self) -> int:
        """No more runs than these, where they are looked up."""
        return 0 if self.starts is None else len(self.starts) * len(self.region)


def ask(asked: Iterable[tuple[Region, Window, Due]]) -> list[Asked]:
    """Decide how each is to be found."""
    found = [Asked(region, window, due, region.windows(window, due)) for region, window, due in asked]
    hoped: Counter[Region] = Counter()
    for each in found:
        hoped[each.region] += each.most
    for each in found:
        if (len(each.region.edges) + 1) * len(each.region) > SEARCH * hoped[each.region]:
            each.starts = None
    return found


def in_turns(asked: Sequence[Asked], cells: int) -> Iterator[slice]:
    """Which of them to find at a time, neighbours together, for not too many runs."""
    first = room = 0
    for number, each in enumerate(asked):
        if number > first and room + each.most > max(AT_ONCE, cells):
            yield slice(first, number)
            first, room = number, 0
        room += each.most
    if first < len(asked):
        yield slice(first, len(asked))


def find_runs(asked: Sequence[Asked]) -> Runs:
    """The runs of these windows.

    >>> region = Region(np.array([0, 2, 3]), np.array([7, 7, 9]), np.array([0, 2, 1]), np.array([0, 4, 6]))
    >>> runs = find_runs(ask([(region, Window(range=6, slide=2), (0, 8))]))
    >>> runs.start.tolist(), runs.group.tolist(), runs.low.tolist(), runs.high.tolist()
    ([-4, -2, 0, 0, 2, 2], [7, 7, 7, 9, 7, 9], [0, 0, 0, 2, 1, 2], [1, 1, 1, 3, 2, 3])
    """
    searched = [_search(a) if a.starts is None else None for a in asked]
    room = sum(a.most if found is None else len(found[0]) for a, found in zip(asked, searched))
    low, high, group, start, end = (np.empty(room, dtype=np.int64) for _ in range(5))
    bounds = np.zeros(len(asked) + 1, dtype=np.int64)
    count = 0
    for number, (each, found) in enumerate(zip(asked, searched)):
        region, width = each.region, each.window.range
        if found is not None:
            inside = slice(count, count + len(found[0]))
            low[inside], high[inside], group[inside], start[inside] = found
            end[inside] = start[inside] + width
            count = inside.stop
        elif each.starts is not None and each.most:
            begins = np.searchsorted(region.edges, each.starts)
            ends = np.searchsorted(region.edges, each.starts + width)
            shape = (region.table, region.groups, each.starts, begins, ends, width)
            count = _look_up(*shape, low, high, group, start, end, count)
        bounds[number + 1] = count
    return Runs(low[:count], high[:count], group[:count], start[:count], end[:count], bounds)


def _search(asked: Asked) -> tuple[np.ndarray, ...]:
    """Bounds, group and start of the runs of one window, group by group, brought into the order of time."""
    region, window = asked.region, asked.window
    after, until = (
        each[region.groups] if isinstance(each, np.ndarray) else np.full(len(region), each, np.int64)
        for each in asked.due
    )
    shape = (region.bounds, region.starts, window.range, window.slide, window.offset, after, until)
    nothing = np.zeros(0, dtype=np.int64)
    count = _runs(*shape, nothing, nothing, nothing, nothing)
    low, high, group, start = (np.empty(count, dtype=np.int64) for _ in range(4))
    _runs(*shape, low, high, group, start)
    order = np.argsort(start, kind="stable")
    return low[order], high[order], region.groups[group[order]], start[order]


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
def _look_up(table, groups, starts, begins, ends, width, low, high, group, start, end, count):  # type: ignore[no-untyped-def]
    """Write the runs of all windows from ``count`` on; the number of runs written so far, and these."""
    for w in range(starts.size):
        if begins[w] == ends[w]:
            continue
        a, b = table[begins[w]], table[ends[w]]
        for g in range(groups.size):
            if a[g] < b[g]:
                low[count], high[count], group[count] = a[g], b[g], groups[g]
                start[count], end[count] = starts[w], starts[w] + width
                count += 1
    return count


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
