"""Edges of one period, as the worked examples of the papers count them."""

from __future__ import annotations

from collections.abc import Iterable
from math import lcm

from weft.slicing.count import COUNTERS
from weft.slicing.count.f1 import series_terms
from weft.slicing.progression import Progression


def count_edges(progressions: Iterable[Progression], counter: str = "merged-f1") -> tuple[int, int]:
    """Return the edges in one period of the composite, and that period.

    >>> count_edges([Progression(s, 0) for s in (2, 3, 4, 5, 6)])
    (44, 60)
    """
    edge_sets = tuple(progressions)
    period = lcm(*(p.period for p in edge_sets))
    edges = COUNTERS[counter](edge_sets) * period
    assert edges.denominator == 1
    return edges.numerator, period


def f1_series(progressions: Iterable[Progression]) -> list[int]:
    """Return the alternating series over one period: all edges, those common to pairs, to triples...

    Nothing is dropped first, and trailing zeros are left out.

    >>> f1_series([Progression(s, 0) for s in (2, 3, 4, 5, 6)])
    [87, 70, 36, 10, 1]
    """
    distinct = tuple(dict.fromkeys(progressions))
    terms = series_terms(distinct, lcm(*(p.period for p in distinct)), memo=False, wrap=False)
    while terms and not terms[-1]:
        terms.pop()
    return terms
