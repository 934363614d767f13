"""Matching: the pairs of new rows and kept rows that are near enough in time and in value, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit

from weft.joins.access import Access
from weft.joins.rows import Kept, Rows

BLOCK = 1 << 18
"""Candidate pairs that are looked at together."""


class Windows(NamedTuple):
    """One side's distinct ranges, ascending, and the number of its first place.

    A pair's place says whose row is the earlier one and which of that side's ranges are too short for it:
    place ``base + n`` if n of them are.
    """

    ranges: np.ndarray
    base: int

    def place_of(self, ages: np.ndarray) -> np.ndarray:
        """The places of ages, none of them beyond the last range."""
        return self.base + np.searchsorted(self.ranges, ages, side="right")


class Candidates(NamedTuple):
    """Pairs: places in the new and in the kept rows, how much later the new one is, and their place."""

    new: np.ndarray
    kept: np.ndarray
    later: np.ndarray
    place: np.ndarray


def candidates(
    new: Rows,
    wanted: np.ndarray,
    kept: Kept,
    access: Access,
    new_windows: Windows,
    kept_windows: Windows,
    youngest: int = 0,
) -> Iterator[Candidates]:
    """The pairs of new rows, of which only those ``wanted`` count, and kept rows, none of them too old.

    ``youngest`` is the least age that a kept row has for any new one.
    """
    needles = new.order[wanted[new.order]] if new.order.size else np.flatnonzero(wanted)
    rows = kept.rows
    if access.by_time:
        times = new.times[needles]
        low = np.searchsorted(rows.times, times - kept_windows.ranges[-1], side="right")
        high = np.searchsorted(rows.times, times + new_windows.ranges[-1], side="left")
    else:
        least, most = access.bounds(new.values[needles])
        low = np.searchsorted(rows.sorted, least, side="left")
        high = np.searchsorted(rows.sorted, most, side="right")
    first = int(np.searchsorted(kept_windows.ranges, youngest, side="right"))
    at, inside = 0, 0
    while at < needles.size:
        size = BLOCK if at or inside else min(BLOCK, int((high - low).sum()))
        block = Candidates(*(np.empty(size, t) for t in (np.int32, np.int32, np.int64, np.int32)))
        count, at, inside = _expand(
            needles,
            low,
            high,
            rows.order,
            kept.start,
            new.times,
            rows.times,
            kept_windows.ranges,
            kept_windows.base,
            new_windows.ranges,
            new_windows.base,
            first,
            at,
            inside,
            *block,
        )
        if count:
            yield Candidates(*(array[:count] for array in block))


@njit(cache=True, nogil=True)
def _expand(  # type: ignore[no-untyped-def]
    needles,
    low,
    high,
    order,
    start,
    new_times,
    kept_times,
    kept_ranges,
    kept_base,
    new_ranges,
    new_base,
    first,
    at,
    inside,
    new,
    kept,
    later,
    place,
):
    """Fill the arrays from needle ``at``, its ``inside``-th partner on; returns how far that went."""
    count = 0
    while at < needles.size:
        row = needles[at]
        time = new_times[row]
        for number in range(low[at] + inside, high[at]):
            if count == new.size:
                return count, at, number - low[at]
            other = order[number] if order.size else number
            if other < start:
                continue
            age = time - kept_times[other]
            if age >= 0:
                rank = first
                while rank < kept_ranges.size and kept_ranges[rank] <= age:
                    rank += 1
                if rank == kept_ranges.size:
                    continue
                place[count] = kept_base + rank
            else:
                rank = 0
                while rank < new_ranges.size and new_ranges[rank] <= -age:
                    rank += 1
                if rank == new_ranges.size:
                    continue
                place[count] = new_base + rank
            new[count], kept[count], later[count] = row, other, age
            count += 1
        at, inside = at + 1, 0
    return count, at, 0
