"""The greedy of Weave Share, compiled: merge the two trees that save most by it until none do.

Guirguis et al., CIKM 2011, figure 2, with the cost look-up table of section 8.1: the reduction of every pair
is kept, each row's best beside it, and only the rows of the tree just merged are computed again.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from weft.cost.load import NOTHING, add_load, final_operations
from weft.optimize.table import count_common, union_rate

NEVER = -np.inf
TILE = 32
_NOTHING = NOTHING


@njit(cache=True, nogil=True)
def reduction(code, tree, combine, rates, counts, costs, loads, bits, i, j):  # type: ignore[no-untyped-def]
    """What merging trees i and j saves per second; not computed where it cannot be positive."""
    highest = max(rates[i], rates[j])
    # At best every edge is common: then the slower tree's queries still see the faster one's edges.
    bound = tree + costs[i] + costs[j] - combine * final_operations(code, highest, loads[i], loads[j])
    if bound <= 0:
        return bound
    together = union_rate(rates[i], counts[i], rates[j], counts[j], count_common(bits[i], bits[j]))
    return tree + costs[i] + costs[j] - combine * final_operations(code, together, loads[i], loads[j])


@njit(cache=True, nogil=True)
def weave(bits, counts, rates, loads, code, tree, combine, stop_at, force_to, dirty):  # type: ignore[no-untyped-def]
    """The tree of each row after merging; trees carry the number of their first row.

    ``stop_at``: no further merge once there are so few trees. ``force_to``: merge at a loss while there are
    more. ``dirty`` (empty: all): only pairs with a tree marked there are merged, and what they become.
    """
    n = rates.size
    bits, counts, rates, loads = bits.copy(), counts.copy(), rates.copy(), loads.copy()
    label = np.arange(n)
    alive = np.ones(n, np.bool_)
    marked = dirty.copy() if dirty.size else np.ones(n, np.bool_)
    costs = np.zeros(n)
    for i in range(n):
        costs[i] = combine * final_operations(code, rates[i], loads[i], _NOTHING)
    saved = np.full((n, n), NEVER)
    best = np.full(n, -1)
    # In tiles, so that the rows being compared stay in the cache.
    for low in range(0, n, TILE):
        for other in range(low, n, TILE):
            for i in range(low, min(low + TILE, n)):
                for j in range(max(i + 1, other), min(other + TILE, n)):
                    if marked[i] or marked[j]:
                        saved[i, j] = reduction(code, tree, combine, rates, counts, costs, loads, bits, i, j)
    for i in range(n):
        best[i] = _best(saved, alive, i)
    trees = n
    while trees > max(stop_at, 1):
        i = -1
        for k in range(n):
            if alive[k] and best[k] >= 0 and (i < 0 or saved[k, best[k]] > saved[i, best[i]]):
                i = k
        if (
            i < 0
            or (saved[i, best[i]] <= 0 and trees <= force_to)
            or (saved[i, best[i]] <= 0 and force_to < 1)
        ):
            break
        j = best[i]
        common = count_common(bits[i], bits[j])
        rates[i] = union_rate(rates[i], counts[i], rates[j], counts[j], common)
        counts[i] += counts[j] - common
        add_load(loads[i], loads[j])
        bits[i] |= bits[j]
        costs[i] = combine * final_operations(code, rates[i], loads[i], _NOTHING)
        alive[j] = False
        marked[i] = True
        trees -= 1
        for k in range(n):
            if label[k] == j:
                label[k] = i
        for k in range(n):
            if alive[k] and k != i:
                a, b = min(i, k), max(i, k)
                saved[a, b] = reduction(code, tree, combine, rates, counts, costs, loads, bits, i, k)
                if k < i:
                    if best[k] == i or best[k] == j:
                        best[k] = _best(saved, alive, k)
                    elif best[k] < 0 or saved[k, i] > saved[k, best[k]]:
                        best[k] = i
                elif best[k] == j:
                    best[k] = _best(saved, alive, k)
        best[i] = _best(saved, alive, i)
    return label


@njit(cache=True, nogil=True)
def _best(saved, alive, i):  # type: ignore[no-untyped-def]
    """The partner after i with the largest reduction, or -1."""
    at = -1
    for j in range(i + 1, alive.size):
        if alive[j] and saved[i, j] > NEVER and (at < 0 or saved[i, j] > saved[i, at]):
            at = j
    return at
