"""Bit set: mark every edge of one whole period and count the marks. The oracle of the other counters.

Guirguis, Sharaf, Chrysanthis, Labrinidis, CIKM 2011, section 4.1. Time grows with the lcm of the periods,
which explodes: the primes below 40 alone make a period of 7 * 10^12. Memory does not: a period is marked one
segment after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import gcd, lcm

import numpy as np

from weft.slicing.count.limits import Unaffordable
from weft.slicing.progression import Progression

MAX_PERIOD_BITS = 1 << 30
"""Bits in the longest period that is marked: about half a second's work."""
SEGMENT_BITS = 1 << 21
"""Bits marked at a time, a byte each: as many as stay in a cache."""


def bitset(progressions: Iterable[Progression], max_bits: int = MAX_PERIOD_BITS) -> Fraction:
    """Return the edges per unit of time, by marking one period.

    >>> bitset([Progression(9, 0), Progression(9, 3), Progression(6, 0), Progression(6, 4)])
    Fraction(4, 9)
    """
    distinct = tuple(set(progressions))
    if not distinct:
        return Fraction(0)
    unit, shift = common_unit(distinct)
    period = lcm(*(p.period for p in distinct)) // unit
    if period > max_bits:
        raise Unaffordable(
            f"one period of the composite has {period:,} bits, more than the {max_bits:,} a bit set may have",
            "count the edges with F1 or merged F1, or estimate the rate from a sample",
        )
    ticks = [((p.residue - shift) % p.period // unit, p.period // unit) for p in distinct]
    return Fraction(_count_marks(ticks, period), period * unit)


def _count_marks(ticks: list[tuple[int, int]], period: int) -> int:
    """Count the ticks of one period that any (first, every) marks."""
    segment = np.empty(min(period, SEGMENT_BITS), dtype=np.bool_)
    edges = 0
    for low in range(0, period, SEGMENT_BITS):
        marks = segment[: period - low]
        marks[:] = False
        for first, every in ticks:
            marks[(first - low) % every :: every] = True
        edges += int(np.count_nonzero(marks))
    return edges


def common_unit(progressions: Iterable[Progression]) -> tuple[int, int]:
    """Return the coarsest clock that all edges tick on: its unit, and the instant of one tick.

    >>> common_unit([Progression(60, 5), Progression(90, 35)])
    (30, 5)
    """
    members = tuple(progressions)
    shift = members[0].residue
    return gcd(*(p.period for p in members), *(p.residue - shift for p in members)), shift
