"""Loads: a tree's queries in the few numbers that a search prices it by, and that add up.

Two trees' loads are joined in no time, whatever the number of their queries; a plan's final costs are taken
from every query (``omega``), of which these are the smooth form.
"""

from __future__ import annotations

from math import log

import numpy as np
from numba import njit

from weft.planning.cost.omega import (
    BULK,
    EXACT,
    FLATFAT,
    PER_QUERY_2,
    PER_QUERY_3,
    PER_QUERY_5,
    RECOMPUTE,
    SIDE_INV,
    SLICK,
    SLICK_INV,
    harmonic,
)

COUNT, OVERLAP, ANSWERS, LOGS, DISTINCT, LONGEST, SHORTEST = range(7)
"""Columns of a load: queries, sum of range/slide, of 1/slide, of log2 range, distinct ranges; the longest and
the shortest range."""
COLUMNS = 7


def loads_of(ranges: np.ndarray, slides: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """Return one load per group of queries; ranges and slides in seconds.

    >>> loads = loads_of(np.array([16.0, 8.0, 10.0]), np.array([4.0, 4.0, 5.0]), np.array([0, 0, 1]), 2)
    >>> loads[:, OVERLAP].tolist()
    [6.0, 2.0]
    """
    loads = np.zeros((groups, COLUMNS))
    logs = np.log2(ranges)
    for column, values in (
        (COUNT, np.ones(ranges.size)),
        (OVERLAP, ranges / slides),
        (ANSWERS, 1 / slides),
        (LOGS, logs),
    ):
        loads[:, column] = np.bincount(group, values, groups)
    order = np.lexsort((ranges, group))
    new = np.ones(ranges.size, dtype=np.bool_)
    new[1:] = (np.diff(group[order]) != 0) | (np.diff(ranges[order]) != 0)
    loads[:, DISTINCT] = np.bincount(group[order][new], minlength=groups)
    loads[:, SHORTEST] = np.inf
    np.maximum.at(loads[:, LONGEST], group, ranges)
    np.minimum.at(loads[:, SHORTEST], group, ranges)
    return loads


@njit(cache=True, nogil=True)
def add_load(into, more):  # type: ignore[no-untyped-def]
    """Join a load into another."""
    for column in range(LONGEST):
        into[column] += more[column]
    into[LONGEST] = max(into[LONGEST], more[LONGEST])
    into[SHORTEST] = min(into[SHORTEST], more[SHORTEST])


@njit(cache=True, nogil=True)
def final_operations(code, edges, load, more):  # type: ignore[no-untyped-def]
    """Return the final operations per second (edges times Omega, smooth) of a tree with two loads joined."""
    n = load[COUNT] + more[COUNT]
    if code == RECOMPUTE:
        return edges * (load[OVERLAP] + more[OVERLAP])
    if code == EXACT:
        return max(edges * (load[OVERLAP] + more[OVERLAP]) - load[ANSWERS] - more[ANSWERS], 0.0)
    if code == PER_QUERY_2:
        return edges * 2 * n
    if code == PER_QUERY_3:
        return edges * 3 * n
    if code == PER_QUERY_5:
        return edges * 5 * n
    if code == FLATFAT:
        return edges * max(load[LOGS] + more[LOGS] + n * (np.log2(edges) + 0.94), 0.0)
    if code == BULK:
        answers = load[ANSWERS] + more[ANSWERS]
        slices = edges * (load[OVERLAP] + more[OVERLAP]) - answers
        return edges * 2 + max(min(slices, 3 * answers), 0.0)
    most = max(max(load[LONGEST], more[LONGEST]) * edges, 1.0)
    if code == SLICK_INV:
        return edges * 2 * min(load[DISTINCT] + more[DISTINCT], most)
    if code == SLICK:
        return edges * (2 - 2 / most + n + harmonic(most))
    if code == SIDE_INV:
        return edges * (2 - 1 / most + n)
    return edges * (2 + log(most / max(min(load[SHORTEST], more[SHORTEST]) * edges, 1.0)) + n)


NO_LOAD = np.zeros(COLUMNS)
NO_LOAD[SHORTEST] = np.inf
"""The load of no query."""
