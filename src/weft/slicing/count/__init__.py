"""Counting edges exactly: one counter, one file, the same rational answer from each.

A counter takes progressions and gives edges per unit of time as a ``Fraction``. The bit set is the oracle;
F1 is the thesis's closed formula; merged F1 is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from math import lcm

from weft.slicing.count.bitset import bitset
from weft.slicing.count.f1 import f1, f1_opt, f1_series
from weft.slicing.count.limits import Unaffordable
from weft.slicing.count.merged_f1 import MergedF1, merged_f1
from weft.slicing.count.weave import common_edges, weaveability
from weft.slicing.progression import Progression

Counter = Callable[[Iterable[Progression]], Fraction]

COUNTERS: dict[str, Counter] = {"bitset": bitset, "f1": f1, "f1-opt": f1_opt, "merged-f1": merged_f1}


def count_edges(progressions: Iterable[Progression], counter: str = "merged-f1") -> tuple[int, int]:
    """Edges in one period of the composite, and that period.

    >>> count_edges([Progression(s, 0) for s in (2, 3, 4, 5, 6)])
    (44, 60)
    """
    some = tuple(progressions)
    period = lcm(*(p.period for p in some))
    edges = COUNTERS[counter](some) * period
    assert edges.denominator == 1
    return edges.numerator, period


__all__ = [
    "COUNTERS",
    "Counter",
    "MergedF1",
    "Unaffordable",
    "bitset",
    "common_edges",
    "count_edges",
    "f1",
    "f1_opt",
    "f1_series",
    "merged_f1",
    "weaveability",
]
