"""The order in which a stream would ask for runs of cells, found by counting, without comparing.

A streaming algorithm inserts cells up to a run's end, answers it, and evicts what no later run needs.
Algorithms that keep one copy per query get chains: in a chain neither end of a run ever goes back.

    cells   0 1 2 3 4 5 6 7
    chain 0   [---) [-----)
    chain 1 [-----)
    chain 1   [---------)
"""

from __future__ import annotations

import numpy as np
from numba import njit


def by_end(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The runs that are not empty, by their end, the widest first among equals.

    >>> by_end(np.array([3, 0, 2, 5]), np.array([4, 4, 3, 5])).tolist()
    [2, 1, 0]
    """
    order = np.flatnonzero(low < high)
    cells = int(high.max()) + 1 if len(order) else 1
    return _counting_sort(high, _counting_sort(low, order, cells), cells)


def chain_of(low: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The chain of each run of ``order`` (which goes by the end), with as few chains as possible.

    >>> low, high = np.array([1, 4, 0, 1]), np.array([3, 7, 3, 6])
    >>> order = by_end(low, high)
    >>> order.tolist(), chain_of(low, order).tolist()
    ([2, 0, 3, 1], [0, 0, 0, 0])
    """
    chain = np.empty(len(order), dtype=np.int64)
    _patience(low, order, chain)
    return chain


def by_chain(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The runs that are not empty, chain by chain, and where each chain begins, with the end."""
    order = by_end(low, high)
    chain = chain_of(low, order)
    count = int(chain.max()) + 1 if len(chain) else 0
    bounds = np.append(0, np.cumsum(np.bincount(chain, minlength=count))).astype(np.int64)
    return order[_counting_sort(chain, np.arange(len(chain)), count)], bounds


@njit(cache=True, nogil=True)
def total_length(low, high):  # type: ignore[no-untyped-def]
    """The cells of all runs together; of many runs, judged by a hundred of them: each is a cache miss or two.

    >>> total_length(np.array([3, 0]), np.array([4, 4]))
    5
    """
    step = 1 + low.size // 100
    total = seen = 0
    for k in range(0, low.size, step):
        total += high[k] - low[k]
        seen += 1
    return total * low.size // max(seen, 1)


@njit(cache=True, nogil=True)
def _counting_sort(key, order, values):  # type: ignore[no-untyped-def]
    """``order`` by ``key[order]``, whose values are below ``values``; stable."""
    place = np.zeros(values + 1, np.int64)
    for k in order:
        place[key[k] + 1] += 1
    for v in range(values):
        place[v + 1] += place[v]
    result = np.empty_like(order)
    for k in order:
        result[place[key[k]]] = k
        place[key[k]] += 1
    return result


@njit(cache=True, nogil=True)
def _patience(low, order, chain):  # type: ignore[no-untyped-def]
    """Each run continues the chain whose last run starts latest, but not after it (patience sorting)."""
    last = np.empty(order.size, np.int64)
    count = 0
    for k in range(order.size):
        start = low[order[k]]
        # ``last`` falls from chain to chain: the first that does not start after this run.
        a, b = 0, count
        while a < b:
            middle = (a + b) // 2
            if last[middle] <= start:
                b = middle
            else:
                a = middle + 1
        if a == count:
            count += 1
        last[a] = start
        chain[k] = a
