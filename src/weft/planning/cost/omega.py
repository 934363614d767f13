"""Omega: final-aggregation operations per edge of a tree, by technique.

A. Shein 2019, section 7.2, with the errata of the algorithms' cards: SlickDeque for invertible aggregates
costs two operations per running answer (equation 7.6 lost the factor), and the mean length of its deque is a
harmonic number, not a sum of inverse factorials. Techniques the thesis leaves out are counted here in the
same way. ``nP`` is the number of slices in a window: its range times the edge rate, ``nQ`` the number of
queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from numba import njit

from weft.errors import QueryError

RECOMPUTE, EXACT, FLATFAT, PER_QUERY_2, PER_QUERY_3, PER_QUERY_5, SLICK_INV, SLICK, SIDE_INV, SIDE, BULK = (
    range(11)
)


@dataclass(frozen=True, slots=True)
class Omega:
    """A technique's operations per edge: its formula as text, and its number in the kernels."""

    name: str
    code: int
    formula: str


OMEGAS = {
    omega.name: omega
    for omega in (
        Omega(
            "recompute", RECOMPUTE, "sum of range/slide: nP combines for each window due, as in the papers"
        ),
        Omega("recompute-exact", EXACT, "sum of (nP - 1) / edges per slide: nP slices take nP - 1 combines"),
        Omega("soe", PER_QUERY_2, "2 nQ: a running answer per query, one in and one out"),
        Omega("flatfat", FLATFAT, "sum of floor(log2(nP - 1)) + (nP - 1) / 2^floor(log2 nP)"),
        Omega("bint", FLATFAT, "as flatfat: the same base intervals"),
        Omega("twostacks", PER_QUERY_3, "3 nQ: a copy per query; in, flipped, and one to answer"),
        Omega("daba", PER_QUERY_5, "5 nQ: a copy per query"),
        Omega("flatfit", PER_QUERY_3, "3 nQ"),
        Omega("slickdeque-inv", SLICK_INV, "2 per distinct nP"),
        Omega("slickdeque-noninv", SLICK, "2 - 2/nP_max + nQ + H(nP_max), H the harmonic number"),
        Omega(
            "slideside-inv",
            SIDE_INV,
            "2 - 1/nP_max + nQ: a prefix, a suffix scan per nP_max edges, one to answer",
        ),
        Omega(
            "slideside-noninv", SIDE, "2 + ln(nP_max/nP_min) + nQ: scans every nP_min edges, stopping early"
        ),
        Omega(
            "bulk",
            BULK,
            "2 + sum of min(nP - 1, 3) / edges per slide: two scans, then at most three pieces a window",
        ),
    )
}

ALIASES = {
    "auto": "bulk",
    "slickdeque": "slickdeque-noninv",
    "slickdeque_inv": "slickdeque-inv",
    "slideside": "slideside-noninv",
    "slideside_inv": "slideside-inv",
    "daba_lite": "daba",
}


def find_omega(technique: str) -> Omega:
    """Return the Omega of a technique; of two forms, the one that any aggregate can use.

    >>> find_omega("slickdeque").formula
    '2 - 2/nP_max + nQ + H(nP_max), H the harmonic number'
    """
    name = ALIASES.get(technique, technique)
    if name not in OMEGAS:
        raise QueryError(
            f"there is no cost formula for technique {technique!r}", hint=f"choose one of {', '.join(OMEGAS)}"
        )
    return OMEGAS[name]


@njit(cache=True, nogil=True)
def harmonic(n):  # type: ignore[no-untyped-def]
    """H(n), exactly enough for every n from 1."""
    if n < 20:
        total = 0.0
        for i in range(1, round(n) + 1):
            total += 1 / i
        return total
    return log(n) + 0.5772156649015329 + 1 / (2 * n) - 1 / (12 * n * n)


@njit(cache=True, nogil=True)
def flatfat_operations(slices):  # type: ignore[no-untyped-def]
    """Equation 7.4 for one query; a window of one slice needs none."""
    if slices < 2:
        return 0.0
    return np.floor(np.log2(slices - 1)) + (slices - 1) / 2.0 ** np.floor(np.log2(slices))


@njit(cache=True, nogil=True)
def bulk_operations(slices):  # type: ignore[no-untyped-def]
    """A suffix, two entries of the table and a prefix, for a window that spans several blocks."""
    return min(slices - 1, 3.0)


@njit(cache=True, nogil=True)
def omega(code, edges, ranges, slides):  # type: ignore[no-untyped-def]
    """Operations per edge, from every query's range and slide."""
    n = ranges.size
    if code == PER_QUERY_2:
        return 2.0 * n
    if code == PER_QUERY_3:
        return 3.0 * n
    if code == PER_QUERY_5:
        return 5.0 * n
    if code == SLICK_INV:
        return 2.0 * np.unique(np.maximum(np.rint(ranges * edges), 1.0)).size
    most = max(ranges.max() * edges, 1.0)
    if code == SLICK:
        return 2 - 2 / most + n + harmonic(most)
    if code == SIDE_INV:
        return 2 - 1 / most + n
    if code == SIDE:
        return 2 + log(most / max(ranges.min() * edges, 1.0)) + n
    total = 2.0 if code == BULK else 0.0
    for i in range(n):
        slices = max(ranges[i] * edges, 1.0)
        if code == RECOMPUTE:
            total += ranges[i] / slides[i]
        elif code == EXACT:
            total += (slices - 1) / (slides[i] * edges)
        elif code == FLATFAT:
            total += flatfat_operations(slices)
        else:
            total += bulk_operations(slices) / (slides[i] * edges)
    return total
