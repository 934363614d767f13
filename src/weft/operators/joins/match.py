"""Matching: the pairs of new rows and kept rows that are near enough in time and in value, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit

from weft.aggregates.cached import read_only
from weft.operators.joins.rows import JoinRows, SideRanges, SliceRows
from weft.planning.joins.access import Access

CANDIDATES_PER_BLOCK = 1 << 18
"""Candidate pairs that are looked at together."""


class CandidatePairs(NamedTuple):
    """Pairs: places in the new and in the kept rows, how much later the new one is, and their place."""

    new: np.ndarray
    stored: np.ndarray
    later: np.ndarray
    place: np.ndarray


class PairProbes(NamedTuple):
    """New rows that probe: their places, where their partners begin and end, and the times of all rows."""

    places: np.ndarray
    low: np.ndarray
    high: np.ndarray
    times: np.ndarray


class ProbedRun(NamedTuple):
    """Kept rows that are probed: their places in the order of values, the first that counts, their times."""

    order: np.ndarray
    start: int
    times: np.ndarray


def candidates(
    new: JoinRows,
    probing: np.ndarray,
    run: SliceRows,
    access: Access,
    new_windows: SideRanges,
    stored_windows: SideRanges,
    youngest: int = 0,
) -> Iterator[CandidatePairs]:
    """The pairs of new rows, of which only those ``probing`` count, and kept rows, none of them too old.

    ``youngest`` is the least age that a kept row has for any new one.
    """
    needles = new.order[probing[new.order]] if new.order.size else np.flatnonzero(probing)
    rows = run.rows
    if access.by_time:
        times = new.times[needles]
        low = np.searchsorted(rows.times, times - stored_windows.ranges[-1], side="right")
        high = np.searchsorted(rows.times, times + new_windows.ranges[-1], side="left")
    else:
        least, most = access.bounds(new.values[needles])
        low = np.searchsorted(rows.sorted, least, side="left")
        high = np.searchsorted(rows.sorted, most, side="right")
    first = int(np.searchsorted(stored_windows.ranges, youngest, side="right"))
    probes, stored = (
        PairProbes(needles, low, high, read_only(new.times)),
        ProbedRun(rows.order, run.start, read_only(rows.times)),
    )
    at, inside = 0, 0
    while at < needles.size:
        size = CANDIDATES_PER_BLOCK if at or inside else min(CANDIDATES_PER_BLOCK, int((high - low).sum()))
        block = CandidatePairs(*(np.empty(size, t) for t in (np.int32, np.int32, np.int64, np.int32)))
        count, at, inside = _expand(probes, stored, new_windows, stored_windows, first, at, inside, block)
        if count:
            yield CandidatePairs(*(array[:count] for array in block))


@njit(cache=True, nogil=True)
def _expand(probes, run, new_windows, stored_windows, first, at, inside, block):  # type: ignore[no-untyped-def]
    """Fill the block from probe ``at``, its ``inside``-th partner on; returns how far that went."""
    needles, low, high, new_times = probes
    order, start, stored_times = run
    new_ranges, new_base = new_windows
    stored_ranges, stored_base = stored_windows
    new, stored, later, place = block
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
            age = time - stored_times[other]
            if age >= 0:
                rank = first
                while rank < stored_ranges.size and stored_ranges[rank] <= age:
                    rank += 1
                if rank == stored_ranges.size:
                    continue
                place[count] = stored_base + rank
            else:
                rank = 0
                while rank < new_ranges.size and new_ranges[rank] <= -age:
                    rank += 1
                if rank == new_ranges.size:
                    continue
                place[count] = new_base + rank
            new[count], stored[count], later[count] = row, other, age
            count += 1
        at, inside = at + 1, 0
    return count, at, 0
