"""The edge rate of a set of progressions: edges per unit of time, always soon.

Exact by the cheapest exact counter where a bound on its work allows: by formula for edges of one period, by a
bit set for a short composite period, by merged F1 for few terms. Otherwise estimated from a sample.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from weft.slicing.count.bitset import bitset, common_unit
from weft.slicing.count.limits import Unaffordable
from weft.slicing.count.merged_f1 import merged_f1
from weft.slicing.count.sample import DEFAULT_DRAWS, sample
from weft.slicing.progression import Progression, reduce_progressions

MAX_BITSET_BITS = 1 << 20
MAX_INTERSECTIONS = 20_000
MAX_REDUCED_PROGRESSIONS = 1_000
"""Above so many progressions the contained ones are not looked for: the terms would be too many anyway."""


@dataclass(frozen=True, slots=True)
class EdgeRate:
    """Edges per unit of time: the value, how it was found, and the exact rational where it is one."""

    value: float
    how: str
    exact: Fraction | None = None


def edge_rate(progressions: Iterable[Progression]) -> float:
    """Return the edges per microsecond (per unit of the progressions).

    >>> Fraction(edge_rate([Progression(9, 0), Progression(9, 3), Progression(6, 0), Progression(6, 4)])
    ...          ).limit_denominator(100)
    Fraction(4, 9)
    """
    return measure_rate(progressions).value


def measure_rate(progressions: Iterable[Progression], effort: float = 1.0) -> EdgeRate:
    """Return the edge rate and how it was found: formula, bit set, merged F1 or sample.

    A smaller effort bounds the exact counters, and the sample, by as much less.

    >>> measure_rate(Progression(s, 0) for s in (2, 3, 5)).how
    'bit set'
    >>> measure_rate(Progression(s, 0) for s in (101, 103, 107, 109)).how
    'merged F1'
    """
    distinct = set(progressions)
    if len({p.period for p in distinct}) <= 1:
        rate = Fraction(len(distinct), next(iter(distinct)).period) if distinct else Fraction(0)
        return _exact(rate, "formula")
    few = len(distinct) <= MAX_REDUCED_PROGRESSIONS * effort
    reduced = reduce_progressions(distinct) if few else tuple(distinct)
    unit, _ = common_unit(reduced)
    period = 1
    for p in reduced:
        period = lcm(period, p.period // unit)
        if period > MAX_BITSET_BITS * effort:
            break
    else:
        return _exact(bitset(reduced), "bit set")
    if few:
        try:
            return _exact(merged_f1(reduced, int(MAX_INTERSECTIONS * effort)), "merged F1")
        except Unaffordable:
            pass
    return EdgeRate(sample(reduced, max(int(DEFAULT_DRAWS * effort), 2_000)), "sample")


def _exact(rate: Fraction, how: str) -> EdgeRate:
    return EdgeRate(float(rate), how, rate)
