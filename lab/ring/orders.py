"""The best join order of each stream: the one with the fewest comparisons.

How many rows are joined of a set of streams does not depend on the order in which they were joined, so the
best order of a set is that of the set without its last stream, for the best last stream: 2^(M-1) sets. The
thesis leaves orders to the optimizer (section 11.1); with independent conditions this finds the best.
"""

from __future__ import annotations

from itertools import combinations

from lab.ring.statistics import Statistics


def best_orders(statistics: Statistics) -> tuple[tuple[int, ...], ...]:
    """For each stream, the other streams in the order in which its rows should probe them.

    >>> best_orders(Statistics((1, 1, 1), (10, 10, 10), {(0, 1): 0.5, (1, 2): 0.1}))
    ((1, 2), (2, 0), (1, 0))
    """
    return tuple(best_order(statistics, stream) for stream in range(len(statistics.rates)))


def best_order(statistics: Statistics, stream: int) -> tuple[int, ...]:
    """The order with the fewest comparisons for one row of a stream.

    >>> best_order(Statistics((1, 9, 1), (10, 10, 10), {(0, 1): 0.5, (0, 2): 0.5}), 0)
    (2, 1)
    """
    rows = statistics.rows
    others = [other for other in range(len(rows)) if other != stream]
    joined: dict[frozenset[int], float] = {frozenset(): 1.0}
    best: dict[frozenset[int], tuple[float, tuple[int, ...]]] = {frozenset(): (0.0, ())}
    for size in range(1, len(others) + 1):
        for streams in combinations(others, size):
            options = []
            for last in streams:
                before = frozenset(streams) - {last}
                cost, order = best[before]
                options.append((cost + joined[before] * rows[last], (*order, last)))
            best[frozenset(streams)] = min(options)
            before = frozenset(streams[:-1])
            share = statistics.selectivity([stream, *before], streams[-1])
            joined[frozenset(streams)] = joined[before] * rows[streams[-1]] * share
    return best[frozenset(others)][1]
