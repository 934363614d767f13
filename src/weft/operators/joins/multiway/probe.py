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

from weft.aggregates.cached import read_only
from weft.operators.joins.multiway.bitmaps import Bitmaps
from weft.operators.joins.multiway.tuples import Tuples
from weft.operators.joins.rows import NO_VALUES, JoinRows, SliceRows
from weft.planning.joins.access import mixed
from weft.planning.joins.levels import Level

CANDIDATES_PER_BLOCK = 1 << 18
"""Candidates that are looked at together."""


LARGE_INDEX_ROWS = 1 << 17
"""Rows whose index is so large that looking up in its order is faster, and worth sorting for."""


class Spans(NamedTuple):
    """Bounds of the partners of some joined rows: at a time after ``after`` and before ``before``, of a
    code from ``least`` to ``most`` (empty: of any)."""

    after: np.ndarray
    before: np.ndarray
    least: np.ndarray
    most: np.ndarray
    usable: np.ndarray


class CandidateTuples(NamedTuple):
    """Joined rows and kept rows that may make longer ones: their places, the latest time, whom they serve."""

    rows: np.ndarray
    stored: np.ndarray
    times: np.ndarray
    words: np.ndarray


class TupleProbes(NamedTuple):
    """Joined rows that probe: their places, where their partners begin and end, between which times."""

    places: np.ndarray
    low: np.ndarray
    high: np.ndarray
    after: np.ndarray
    before: np.ndarray


class JoinedRows(NamedTuple):
    """The arrays of joined rows that the kernel reads."""

    times: np.ndarray
    parts: np.ndarray
    words: np.ndarray


class ProbedSlice(NamedTuple):
    """Kept rows that are probed: their order by code, the first that counts, their times and signatures."""

    order: np.ndarray
    start: int
    times: np.ndarray
    signatures: np.ndarray


class Serving(NamedTuple):
    """Bitmaps of queries: of signatures, and of the slices of age that end at ``ends``."""

    signatures: np.ndarray
    ends: np.ndarray
    serves: np.ndarray


def spans(tuples: Tuples, level: Level, bitmaps: Bitmaps) -> tuple[np.ndarray, np.ndarray]:
    """The times, exclusive, between which a partner must lie."""
    after, before = np.empty(len(tuples), np.int64), np.empty(len(tuples), np.int64)
    bound = np.array(sorted(level.bound), np.int64)
    _spans(
        tuples.words, tuples.parts, read_only(tuples.times), bound, level.side, bitmaps.ranges, after, before
    )
    return after, before


def candidates(
    tuples: Tuples, partners: Spans, run: SliceRows, level: Level, bitmaps: Bitmaps, signatures: np.ndarray
) -> Iterator[CandidateTuples]:
    """Yield the candidates among kept rows of the level's side; ``signatures`` are their bitmaps."""
    rows = run.rows
    first, last = int(rows.times[run.start]), int(rows.times[-1])
    needles = np.flatnonzero(partners.usable & (partners.before > first) & (partners.after < last))
    if not needles.size:
        return
    if level.keys:
        order, codes = index_of(rows, level)
        if len(rows) > LARGE_INDEX_ROWS:
            needles = needles[np.argsort(partners.least[needles])]
        low = np.searchsorted(codes, partners.least[needles], side="left")
        high = np.searchsorted(codes, partners.most[needles], side="right")
    else:
        order = NO_VALUES
        low = np.searchsorted(rows.times, partners.after[needles], side="right")
        high = np.searchsorted(rows.times, partners.before[needles], side="left")
    size = min(CANDIDATES_PER_BLOCK, int((high - low).clip(0).sum()))
    probes = TupleProbes(needles, low, high, partners.after, partners.before)
    joined = JoinedRows(read_only(tuples.times), tuples.parts, tuples.words)
    stored = ProbedSlice(order, run.start, rows.times, rows.signatures)
    serving = Serving(signatures, bitmaps.ends, bitmaps.serves)
    sides = (np.array(sorted(level.bound), np.int64), level.side)
    at, inside = 0, 0
    while size and at < needles.size:
        block = CandidateTuples(
            np.empty(size, np.int32),
            np.empty(size, np.int32),
            np.empty(size, np.int64),
            np.empty((size, tuples.words.shape[1]), np.uint64),
        )
        count, at, inside = _expand(probes, joined, stored, serving, sides, at, inside, block)
        if count:
            yield CandidateTuples(*(array[:count] for array in block))


def index_of(rows: JoinRows, level: Level) -> tuple[np.ndarray, np.ndarray]:
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
def _expand(probes, joined, run, serving, sides, at, inside, block):  # type: ignore[no-untyped-def]
    """Fill the block from probe ``at``, its ``inside``-th partner on; returns how far that went."""
    needles, low, high, after, before = probes
    times, parts, words = joined
    order, start, stored_times, stored_signatures = run
    signatures, ends, serves = serving
    bound, side = sides
    rows, stored, latest, served = block
    count = 0
    while at < needles.size:
        row = needles[at]
        for number in range(low[at] + inside, high[at]):
            if count == rows.size:
                return count, at, number - low[at]
            other = order[number] if order.size else number
            time = stored_times[other]
            if other < start or time <= after[row] or time >= before[row]:
                continue
            now = max(times[row], time)
            place = 0
            while ends[side, place] <= now - time:
                place += 1
            signature, serves_any = stored_signatures[other], False
            for w in range(served.shape[1]):
                word = words[row, w] & signatures[signature, w] & serves[side, place, w]
                served[count, w] = word
                serves_any = serves_any or word != 0
            if serves_any and time > times[row]:  # the others are older than they were
                for b in bound:
                    place, serves_any = 0, False
                    while ends[b, place] <= now - parts[row, b]:
                        place += 1
                    for w in range(served.shape[1]):
                        served[count, w] &= serves[b, place, w]
                        serves_any = serves_any or served[count, w] != 0
                    if not serves_any:
                        break
            if not serves_any:
                continue
            rows[count], stored[count], latest[count] = row, other, now
            count += 1
        at, inside = at + 1, 0
    return count, at, 0
