"""Due windows as runs of neighbouring cells, searched group by group: sparse groups cost what they hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numba import njit

from weft.aggregates import Monoid
from weft.final.registry import ChosenTechnique
from weft.operators.keys import KeyIndex
from weft.operators.windows.due_windows import DueWindows


class Runs(ABC):
    """The due windows of some queries that hold a row, by query and time: their starts and ends.

    Those of query n are from ``bounds[n]`` to ``bounds[n + 1]``.
    """

    start: np.ndarray
    end: np.ndarray
    bounds: np.ndarray

    def part(self, first: int, last: int) -> slice:
        """Return where the runs of these queries are."""
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
        self, by: ChosenTechnique, monoid: Monoid, states: np.ndarray, query_ranges: Sequence[tuple[int, int]]
    ) -> np.ndarray:
        """One state per run of these queries, each from a first to before a last."""
        low, high = self.cells
        if sum(last - first for first, last in query_ranges) < len(self.bounds) - 1:
            low, high = (
                np.concatenate([cells[self.part(*span)] for span in query_ranges]) for cells in (low, high)
            )
        return by.answer(monoid, states, low, high)


class Searched(Runs):
    """Runs found group by group, brought into the order of time."""

    def __init__(self, due_windows: DueWindows) -> None:
        runs = [_search(due_windows, query) for query in range(len(due_windows.region))]
        low, high, group, self.start, self.end = (np.concatenate(column) for column in zip(*runs))
        self._cells, self._group = (low, high), group
        self.bounds = np.cumsum([0, *(len(low) for low, *_ in runs)])

    @property
    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        return self._cells

    @property
    def group(self) -> np.ndarray:
        return self._group


def _search(due_windows: DueWindows, query: int) -> tuple[np.ndarray, ...]:
    """Cells, group and bounds of the runs of one query."""
    region, windows = due_windows.regions[due_windows.region[query]], due_windows.windows
    after, until = due_windows.due
    if isinstance(until, np.ndarray):
        after, until = after[region.groups], until[region.groups]
    else:
        after, until = (np.full(len(region), instant, np.int64) for instant in (after[query], until))
    window = (windows.range[query], windows.slide[query], windows.offset[query])
    cells, due = (region.bounds, region.starts), (after, until)
    no_room = np.zeros(0, dtype=np.int64)
    count = _runs(cells, window, due, (no_room, no_room, no_room, no_room))
    low, high, group, start = (np.empty(count, dtype=np.int64) for _ in range(4))
    _runs(cells, window, due, (low, high, group, start))
    order = np.argsort(start, kind="stable")
    start = start[order]
    return low[order], high[order], region.groups[group[order]], start, start + windows.range[query]


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
def _runs(cells, window, due, out):  # type: ignore[no-untyped-def]
    """Count the runs, and write them where the outputs have room; windows without a cell are skipped."""
    bounds, starts = cells
    range_, slide, offset = window
    afters, untils = due
    low, high, group, start = out
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
