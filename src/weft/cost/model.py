"""What a tree should cost: operations per second, as in Guirguis et al., CIKM 2011, and Shein 2019, chapter 7."""

from __future__ import annotations

from math import log2

from weft.query import Query
from weft.slicing import edge_rate
from weft.slicing.progression import Progression

SECOND = 1_000_000


def edges_per_second(progressions: tuple[Progression, ...]) -> float:
    """The edge rate of a tree, per second.

    >>> edges_per_second((Progression(5 * SECOND, 0), Progression(5 * SECOND, 3 * SECOND)))
    0.4
    """
    return edge_rate(progressions) * SECOND


def final_operations(queries: tuple[Query, ...], technique: str, edges: float) -> float:
    """Combine operations per second to answer the windows of a tree from its slices.

    Each query answers 1/slide windows per second, each from ``range * edges`` slices: all of them by
    recompute, about 2 log2 of them by bulk.
    """
    total = 0.0
    for q in queries:
        slices = max(q.window.range / SECOND * edges, 1.0)
        per_window = slices if technique == "recompute" else 1 + 2 * log2(slices)
        total += per_window * SECOND / q.window.slide
    return total
