"""Statistics of the streams of a join: rates, windows, and how selective conditions are between them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from lab.ring.multijoin import MultiJoin, Row


@dataclass(frozen=True)
class Statistics:
    """Rows per unit of time and window of each stream; the share of pairs that join, per two streams.

    >>> streams = Statistics((50, 50, 2), (10, 10, 10), {(0, 1): 0.1})
    >>> streams.rows, streams.selectivity([1, 2], 0), streams.average(1)
    ((500, 500, 20), 0.1, 0.55)
    """

    rates: tuple[float, ...]
    windows: tuple[float, ...]
    selectivities: Mapping[tuple[int, int], float]

    @property
    def rows(self) -> tuple[float, ...]:
        """Return how many rows each window holds."""
        return tuple(rate * window for rate, window in zip(self.rates, self.windows))

    def pair(self, one: int, other: int) -> float:
        """The share of pairs of two streams that join."""
        return self.selectivities.get((min(one, other), max(one, other)), 1.0)

    def selectivity(self, joined: Sequence[int], stream: int) -> float:
        """The share of one more stream's rows that join with rows of those joined; conditions independent."""
        return prod(self.pair(one, stream) for one in joined)

    def average(self, stream: int) -> float:
        """The average selectivity between a stream and the others."""
        others = [other for other in range(len(self.rates)) if other != stream]
        return sum(self.pair(stream, other) for other in others) / len(others)


def measured(join: MultiJoin, rows: Sequence[Row], span: float, sample: int = 60) -> Statistics:
    """Statistics of rows that came within so much time; conditions are tried on a sample of them.

    >>> from lab.ring.multijoin import rows_of
    >>> rows = rows_of((n % 2, n, n % 2) for n in range(20))
    >>> measured(MultiJoin((5, 5), {(0, 1): int.__eq__}), rows, 10.0)
    Statistics(rates=(1.0, 1.0), windows=(5, 5), selectivities={(0, 1): 0.0})
    """
    streams = [[row for row in rows if row.stream == stream] for stream in range(len(join.windows))]
    chosen = random.Random(len(rows))
    some = [chosen.sample(one, min(sample, len(one))) for one in streams]
    selectivities = {}
    for (low, high), test in join.pairs.items():
        tried = [bool(test(a.value, b.value)) for a, b in product(some[low], some[high])]
        if tried:
            selectivities[low, high] = sum(tried) / len(tried)
    return Statistics(tuple(len(one) / span for one in streams), join.windows, selectivities)
