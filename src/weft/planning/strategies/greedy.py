"""The greedy of Weave Share, compiled: merge the two trees that save most by it until none do.

Guirguis et al., CIKM 2011, figure 2, with the cost look-up table of section 8.1: the reduction of every pair
is kept, each row's best beside it, and only the rows of the tree just merged are computed again.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from weft.planning.cost.load import NO_LOAD, add_load, final_operations
from weft.planning.table import count_common, union_rate

NO_REDUCTION = -np.inf
TILE_ROWS = 32


@njit(cache=True, nogil=True)
def reduction(trees, price, costs, i, j):  # type: ignore[no-untyped-def]
    """Return the cost per second that merging trees i and j saves; a bound where it cannot be positive."""
    bits, counts, rates, loads = trees
    code, tree, combine = price
    highest = max(rates[i], rates[j])
    # At best every edge is common: then the slower tree's queries still see the faster one's edges.
    bound = tree + costs[i] + costs[j] - combine * final_operations(code, highest, loads[i], loads[j])
    if bound <= 0:
        return bound
    together = union_rate(rates[i], counts[i], rates[j], counts[j], count_common(bits[i], bits[j]))
    return tree + costs[i] + costs[j] - combine * final_operations(code, together, loads[i], loads[j])


@njit(cache=True, nogil=True)
def weave(trees, price, stop_at, force_to, dirty):  # type: ignore[no-untyped-def]
    """Return the tree of each row after merging; trees carry the number of their first row.

    ``stop_at``: no further merge once there are so few trees. ``force_to``: merge at a loss while there are
    more. ``dirty`` (empty: all): only pairs with a tree marked there are merged, and what they become.
    """
    bits, counts, rates, loads = trees
    bits, counts, rates, loads = bits.copy(), counts.copy(), rates.copy(), loads.copy()
    merged = bits, counts, rates, loads
    code, _, combine = price
    n = rates.size
    label = np.arange(n)
    alive = np.ones(n, np.bool_)
    marked = dirty.copy() if dirty.size else np.ones(n, np.bool_)
    costs = np.zeros(n)
    for i in range(n):
        costs[i] = combine * final_operations(code, rates[i], loads[i], NO_LOAD)
    saved = np.full((n, n), NO_REDUCTION)
    best = np.full(n, -1)
    # In tiles, so that the rows being compared stay in the cache.
    for low in range(0, n, TILE_ROWS):
        for other in range(low, n, TILE_ROWS):
            for i in range(low, min(low + TILE_ROWS, n)):
                for j in range(max(i + 1, other), min(other + TILE_ROWS, n)):
                    if marked[i] or marked[j]:
                        saved[i, j] = reduction(merged, price, costs, i, j)
    for i in range(n):
        best[i] = _best(saved, alive, i)
    tree_count = n
    while tree_count > max(stop_at, 1):
        i = -1
        for k in range(n):
            if alive[k] and best[k] >= 0 and (i < 0 or saved[k, best[k]] > saved[i, best[i]]):
                i = k
        if (
            i < 0
            or (saved[i, best[i]] <= 0 and tree_count <= force_to)
            or (saved[i, best[i]] <= 0 and force_to < 1)
        ):
            break
        j = best[i]
        common = count_common(bits[i], bits[j])
        rates[i] = union_rate(rates[i], counts[i], rates[j], counts[j], common)
        counts[i] += counts[j] - common
        add_load(loads[i], loads[j])
        bits[i] |= bits[j]
        costs[i] = combine * final_operations(code, rates[i], loads[i], NO_LOAD)
        alive[j] = False
        marked[i] = True
        tree_count -= 1
        for k in range(n):
            if label[k] == j:
                label[k] = i
        for k in range(n):
            if alive[k] and k != i:
                a, b = min(i, k), max(i, k)
                saved[a, b] = reduction(merged, price, costs, i, k)
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
    """Return the partner after i with the largest reduction, or -1."""
    at = -1
    for j in range(i + 1, alive.size):
        if alive[j] and saved[i, j] > NO_REDUCTION and (at < 0 or saved[i, j] > saved[i, at]):
            at = j
    return at
