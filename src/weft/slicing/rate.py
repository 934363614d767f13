"""The edge rate of a set of progressions: edges per unit of time.

Exact by marking one period in a bit set where the period is short enough; otherwise measured over a
long sample, since periods explode with the lcm of the slides.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd, lcm

import numpy as np

from weft.slicing.progression import Progression, edges_between, reduce_progressions

LONGEST_BITSET = 1 << 20
SAMPLE_EDGES = 20_000


def edge_rate(progressions: Iterable[Progression]) -> float:
    """Edges per microsecond (per unit of the progressions).

    >>> from fractions import Fraction
    >>> Fraction(edge_rate([Progression(9, 0), Progression(9, 3), Progression(6, 0), Progression(6, 4)])
    ...          ).limit_denominator(100)
    Fraction(4, 9)
    """
    reduced = reduce_progressions(progressions)
    if not reduced:
        return 0.0
    unit = gcd(*(p.period for p in reduced), *(p.residue for p in reduced))
    period = lcm(*(p.period for p in reduced)) // unit
    if period <= LONGEST_BITSET:
        edges = np.zeros(period, dtype=np.bool_)
        for p in reduced:
            edges[p.residue // unit :: p.period // unit] = True
        return int(edges.sum()) / (period * unit)
    together = sum(1 / p.period for p in reduced)
    span = max(int(SAMPLE_EDGES / together), 2 * max(p.period for p in reduced))
    edges = edges_between(reduced, 0, span - 1)
    return int(((edges >= 0) & (edges < span)).sum()) / span
