"""Weaveability: the share of the edges of two trees that is common.

Guirguis et al., CIKM 2011, definition 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import lcm

from weft.slicing.count.merged_f1 import MergedF1
from weft.slicing.progression import Progression


def common_edges(a: Iterable[Progression], b: Iterable[Progression]) -> int:
    """Return the edges that both sets have in one period of their composite.

    >>> common_edges([Progression(9, 0), Progression(9, 3)], [Progression(6, 0), Progression(6, 4)])
    2
    """
    mine, theirs = tuple(a), tuple(b)
    period = lcm(*(p.period for p in (*mine, *theirs)))
    return int(MergedF1.of(mine).common(MergedF1.of(theirs)) * period)


def weaveability(a: Iterable[Progression], b: Iterable[Progression]) -> Fraction:
    """Return the common edges as a share of all edges of the two sets together: 1 where they weave perfectly.

    >>> weaveability([Progression(9, 0), Progression(9, 3)], [Progression(6, 0), Progression(6, 4)])
    Fraction(1, 4)
    """
    mine, theirs = MergedF1.of(a), MergedF1.of(b)
    common = mine.common(theirs)
    together = mine.rate + theirs.rate - common
    return common / together if together else Fraction(0)
