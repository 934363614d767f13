"""F1: edges by inclusion and exclusion over groups of progressions, without ever listing an edge.

A. Shein, Processing of Aggregate Continuous Queries in a Distributed Environment, 2019, chapter 5. The edges
are those of all progressions, minus those that pairs have in common, plus those of triples, and so on. A
group of progressions meets iff every pair does (``|shift1 - shift2| mod gcd(slide1, slide2) = 0``) and then
once per lcm. Duplicates and progressions contained in another are dropped first; 2^n groups remain.

F1+Opt looks gcds up in a table: ``gcd(a, s) = table[s, a mod s]`` is one division instead of Euclid's loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations
from math import gcd, lcm

import numpy as np
from numba import njit

from weft.slicing.count.bitset import common_unit
from weft.slicing.count.limits import Unaffordable
from weft.slicing.progression import Progression, reduce_progressions

MAX_PROGRESSIONS = 26
"""Progressions in the largest set that is counted: 2^26 groups take seconds."""

MAX_PROGRESSIONS_BEYOND_WORDS = 18
"""The same where the period does not fit a machine word, and groups are counted some hundred times slower."""

WRAP = 1 << 64

MAX_TABLE_SLIDE = 4096
"""F1+Opt keeps gcds of numbers up to this (32 MiB); larger slides are counted as by F1."""


def f1(progressions: Iterable[Progression], max_progressions: int = MAX_PROGRESSIONS) -> Fraction:
    """Return the edges per unit of time, by formula F1.

    >>> f1([Progression(9, 0), Progression(9, 3), Progression(6, 0), Progression(6, 4)])
    Fraction(4, 9)
    """
    return _alternate(reduce_progressions(progressions), max_progressions, memo=False)


def f1_opt(progressions: Iterable[Progression], max_progressions: int = MAX_PROGRESSIONS) -> Fraction:
    """Return the same, with memoised gcds.

    >>> f1_opt([Progression(s, 0) for s in (2, 3, 5)])
    Fraction(11, 15)
    """
    return _alternate(reduce_progressions(progressions), max_progressions, memo=True)


def _alternate(progressions: tuple[Progression, ...], max_progressions: int, memo: bool) -> Fraction:
    if not progressions:
        return Fraction(0)
    unit, _ = common_unit(progressions)
    period = lcm(*(p.period for p in progressions))
    if period // unit >= WRAP >> 2:
        max_progressions = min(max_progressions, MAX_PROGRESSIONS_BEYOND_WORDS)
    count = len(progressions)
    if count > max_progressions:
        raise Unaffordable(
            f"F1 over {count} progressions has 2^{count} groups, more than 2^{max_progressions}",
            "count with merged F1, or estimate the rate from a sample",
        )
    terms = series_terms(progressions, period, memo)
    edges = sum(term if i % 2 == 0 else -term for i, term in enumerate(terms))
    # Single terms may have wrapped around in 64 bits; the answer, at most one edge per unit, has not.
    return Fraction(edges % WRAP if period // unit < WRAP >> 2 else edges, period)


def series_terms(
    progressions: tuple[Progression, ...], period: int, memo: bool, wrap: bool = True
) -> list[int]:
    """Return the alternating series over one period: all edges, those common to pairs, to triples...

    Where they may ``wrap``, terms are right modulo 2^64.
    """
    unit, shift = common_unit(progressions)
    slides = [p.period // unit for p in progressions]
    shifts = [(p.residue - shift) % p.period // unit for p in progressions]
    if period // unit << (0 if wrap else len(progressions)) >= WRAP >> 2:
        return _terms_unbounded(slides, shifts, period // unit)
    table = np.zeros((0, 0), np.uint16)
    if memo and max(slides) <= MAX_TABLE_SLIDE:
        table = _gcd_table(max(slides))
    return _terms_kernel(np.array(slides), np.array(shifts), period // unit, table).tolist()


_tables: dict[int, np.ndarray] = {}


def _gcd_table(largest: int) -> np.ndarray:
    """Return all gcds up to a power of two at or above ``largest``, made once."""
    size = 1 << largest.bit_length()
    if size not in _tables:
        numbers = np.arange(size, dtype=np.uint16)
        _tables[size] = np.gcd.outer(numbers, numbers)
    return _tables[size]


def _terms_unbounded(slides: list[int], shifts: list[int], period: int) -> list[int]:
    """Return the series where the period does not fit a machine word."""
    meets = {
        (i, j): (shifts[i] - shifts[j]) % gcd(slides[i], slides[j]) == 0
        for i, j in combinations(range(len(slides)), 2)
    }
    terms = []
    for size in range(1, len(slides) + 1):
        term = 0
        for group in combinations(range(len(slides)), size):
            if all(meets[pair] for pair in combinations(group, 2)):
                term += period // lcm(*(slides[i] for i in group))
        terms.append(term)
    return terms


@njit(cache=True, nogil=True)
def _gcd(a, b, table):  # type: ignore[no-untyped-def]
    if table.size:
        return np.int64(table[b, a % b])
    while b:
        a, b = b, a % b
    return a


@njit(cache=True, nogil=True)
def _terms_kernel(slides, shifts, period, table):  # type: ignore[no-untyped-def]
    """Every group as a bit mask; the lcm of a group is built up member by member, as in the thesis."""
    n = slides.size
    terms = np.zeros(n, np.int64)
    group = np.zeros(n, np.int64)
    for mask in range(1, 1 << n):
        size = 0
        for i in range(n):
            if mask >> i & 1:
                group[size] = i
                size += 1
        common = slides[group[0]]
        meets = True
        for a in range(1, size):
            i = group[a]
            for b in range(a):
                j = group[b]
                apart = abs(shifts[i] - shifts[j])
                if apart and apart % _gcd(slides[i], slides[j], table):
                    meets = False
                    break
            if not meets:
                break
            common = common // _gcd(common, slides[i], table) * slides[i]
        if meets:
            terms[size - 1] += period // common
    return terms
