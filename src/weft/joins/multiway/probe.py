"""Probing: joined rows of some sides against kept rows of another, block by block.

Before a row is looked up, its ages say at which times a partner must lie for any query that it still serves;
where there is no such row, nothing is probed (Wang, section 19.2). A candidate is put to the conditions only
if the bitmaps of all its parts have a query in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit

from weft.joins.access import mixed
from weft.joins.multiway.bitmaps import Bitmaps
from weft.joins.multiway.levels import Level
from weft.joins.multiway.tuples import Tuples
from weft.joins.rows import NONE, Kept, Rows

BLOCK = 1 << 18
"""Candidates that are looked at together."""


LARGE = 1 << 17
"""Rows whose index is so large that looking up in its order is faster, and worth sorting for."""


class Spans(NamedTuple):
    """What the partners of some joined rows must be: at a time after ``after`` and before ``before``, of a
    code from ``least`` to ``most`` (empty: of any)."""

    after: np.ndarray
    before: np.ndarray
    least: np.ndarray
    most: np.ndarray
    usable: np.ndarray


class Candidates(NamedTuple):
    """Joined rows and kept rows that may make longer ones: their places, the latest time, whom they serve."""

    rows: np.ndarray
    kept: np.ndarray
    times: np.ndarray
    words: np.ndarray


def spans(tuples: Tuples, level: Level, bitmaps: Bitmaps) -> tuple[np.ndarray, np.ndarray]:
    """The times, exclusive, between which a partner must lie."""
    after, before = np.empty(len(tuples), np.int64), np.empty(len(tuples), np.int64)
    bound = np.array(sorted(level.bound), np.int64)
    _spans(tuples.words, tuples.parts, tuples.times, bound, level.side, bitmaps.ranges, after, before)
    return after, before


def candidates(
    tuples: Tuples, found: Spans, kept: Kept, level: Level, bitmaps: Bitmaps, signs: np.ndarray
) -> Iterator[Candidates]:
    """The candidates among some kept rows of the level's side; ``signs`` are the bitmaps of signatures."""
    rows = kept.rows
    first, last = int(rows.times[kept.start]), int(rows.times[-1])
    needles = np.flatnonzero(found.usable & (found.before > first) & (found.after < last))
    if not needles.size:
        return
    if level.keys:
        order, codes = index_of(rows, level)
        if len(rows) > LARGE:
            needles = needles[np.argsort(found.least[needles])]
        low = np.searchsorted(codes, found.least[needles], side="left")
        high = np.searchsorted(codes, found.most[needles], side="right")
    else:
        order = NONE
        low = np.searchsorted(rows.times, found.after[needles], side="right")
        high = np.searchsorted(rows.times, found.before[needles], side="left")
    bound = np.array(sorted(level.bound), np.int64)
    size = min(BLOCK, int((high - low).clip(0).sum()))
    at, inside = 0, 0
    while size and at < needles.size:
        block = Candidates(
            np.empty(size, np.int32),
            np.empty(size, np.int32),
            np.empty(size, np.int64),
            np.empty((size, tuples.words.shape[1]), np.uint64),
        )
        count, at, inside = _expand(
            needles,
            low,
            high,
            order,
            kept.start,
            tuples.times,
            tuples.parts,
            tuples.words,
            found.after,
            found.before,
            rows.times,
            rows.signs,
            signs,
            bound,
            level.side,
            bitmaps.ends,
            bitmaps.serves,
            at,
            inside,
            *block,
        )
        if count:
            yield Candidates(*(array[:count] for array in block))


def index_of(rows: Rows, level: Level) -> tuple[np.ndarray, np.ndarray]:
    """Rows in the order of what a level looks them up by, and these codes in order; made once."""
    places = tuple(key.value for key in level.keys)
    if places not in rows.indices:
        codes = rows.values[:, places[0]]
        for place in places[1:]:
            codes = mixed(codes, rows.values[:, place])
        order = np.argsort(codes, kind="stable")
        rows.indices[places] = order, codes[order]
    return rows.indices[places]


@njit(cache=True, nogil=True)
def _spans(words, parts, times, bound, side, ranges, after, before):  # type: ignore[no-untyped-def]
    for i in range(times.size):
        longest, until = np.int64(0), np.iinfo(np.int64).min
        for q in range(ranges.shape[0]):
            if not (words[i, q >> 6] >> np.uint64(q & 63)) & np.uint64(1):
                continue
            longest = max(longest, ranges[q, side])
            end = np.iinfo(np.int64).max
            for b in bound:
                end = min(end, parts[i, b] + ranges[q, b])
            until = max(until, end)
        after[i], before[i] = times[i] - longest, until


@njit(cache=True, nogil=True)
def _expand(  # type: ignore[no-untyped-def]
    needles,
    low,
    high,
    order,
    start,
    times,
    parts,
    words,
    after,
    before,
    kept_times,
    kept_signs,
    signs,
    bound,
    side,
    ends,
    serves,
    at,
    inside,
    rows,
    kept,
    latest,
    served,
):
    """Fill the arrays from needle ``at``, its ``inside``-th partner on; returns how far that went."""
    count = 0
    while at < needles.size:
        row = needles[at]
        for number in range(low[at] + inside, high[at]):
            if count == rows.size:
                return count, at, number - low[at]
            other = order[number] if order.size else number
            time = kept_times[other]
            if other < start or time <= after[row] or time >= before[row]:
                continue
            now = max(times[row], time)
            place = 0
            while ends[side, place] <= now - time:
                place += 1
            sign, some = kept_signs[other], False
            for w in range(served.shape[1]):
                word = words[row, w] & signs[sign, w] & serves[side, place, w]
                served[count, w] = word
                some = some or word != 0
            if some and time > times[row]:  # the others are older than they were
                for b in bound:
                    place, some = 0, False
                    while ends[b, place] <= now - parts[row, b]:
                        place += 1
                    for w in range(served.shape[1]):
                        served[count, w] &= serves[b, place, w]
                        some = some or served[count, w] != 0
                    if not some:
                        break
            if not some:
                continue
            rows[count], kept[count], latest[count] = row, other, now
            count += 1
        at, inside = at + 1, 0
    return count, at, 0
