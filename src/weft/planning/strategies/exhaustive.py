"""exhaustive: the cheapest of all groupings. The yardstick of the others, for few classes.

Every grouping is looked at, though not one by one: the cheapest grouping of a set is its cheapest split into
the tree of its first class and the cheapest grouping of the rest, 3^n steps instead of one per partition.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from weft.errors import QueryError
from weft.planning.cost.load import NO_LOAD, add_load, final_operations
from weft.planning.guard import no_worse
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy
from weft.planning.table import rate_of

MAX_CLASSES = 14


@strategy("exhaustive", cost_based=True)
def exhaustive(problem: Problem) -> TreeAssignment:
    """The cheapest grouping there is, for at most 14 distinct windows."""
    if len(problem) > MAX_CLASSES:
        raise QueryError(
            f"the exhaustive search takes at most {MAX_CLASSES} windows with different edges, "
            f"not {len(problem)}",
            hint="use weave-share",
        )
    costs = _subset_costs(problem.class_trees, problem.tree_price)
    return no_worse(problem, TreeAssignment.of(_cheapest_partition(costs, len(problem))))


@njit(cache=True, nogil=True)
def _subset_costs(classes, price):  # type: ignore[no-untyped-def]
    """Return the cost of each set of classes as one tree; sets are bit masks."""
    bits, counts, rates, loads = classes
    code, tree, combine = price
    n = rates.size
    costs = np.zeros(1 << n)
    members = np.zeros(n, np.int64)
    for mask in range(1, 1 << n):
        size = 0
        load = NO_LOAD.copy()
        for i in range(n):
            if mask >> i & 1:
                members[size] = i
                size += 1
                add_load(load, loads[i])
        edges = rate_of(bits, counts, rates, members[:size])
        costs[mask] = tree + combine * final_operations(code, edges, load, NO_LOAD)
    return costs


@njit(cache=True, nogil=True)
def _cheapest_partition(costs, n):  # type: ignore[no-untyped-def]
    best = np.zeros(1 << n)
    first = np.zeros(1 << n, np.int64)
    for mask in range(1, 1 << n):
        lowest = mask & -mask
        rest = mask ^ lowest
        best[mask] = np.inf
        part = rest
        while True:
            cost = costs[part | lowest] + best[rest ^ part]
            if cost < best[mask]:
                best[mask] = cost
                first[mask] = part | lowest
            if part == 0:
                break
            part = (part - 1) & rest
    labels = np.zeros(n, np.int64)
    mask = (1 << n) - 1
    while mask:
        for i in range(n):
            if first[mask] >> i & 1:
                labels[i] = mask
        mask ^= first[mask]
    return labels
