"""local-search: start anywhere and move one class at a time to the tree where it costs least.

Guirguis et al., CIKM 2011, section 6: from no sharing or from a random grouping, with a bound on the steps
that is a multiple of what Weave Share needs (at most one merge per class).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from weft.errors import QueryError
from weft.planning.cost.load import NO_LOAD, add_load, final_operations
from weft.planning.guard import no_worse
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy
from weft.planning.table import count_common


@strategy("local-search", cost_based=True)
def local_search(problem: Problem, *, start: str = "no-share", times: int = 10) -> TreeAssignment:
    """Single moves from ``start`` (no-share or random), at most ``times`` for each class."""
    n = len(problem)
    if start not in ("no-share", "random"):
        raise QueryError(f"the local search starts from no-share or random, not {start!r}")
    labels = np.arange(n) if start == "no-share" else problem.random.integers(0, n, n)
    order = problem.random.integers(0, n, times * n)
    _search(problem.class_trees, problem.tree_price, order, labels)
    return no_worse(problem, TreeAssignment.of(labels))


@njit(cache=True, nogil=True)
def _search(classes, price, order, labels):  # type: ignore[no-untyped-def]
    bits, _, rates, loads = classes
    code, tree, combine = price
    n = rates.size
    union = np.zeros_like(bits)
    cost = np.zeros(n)
    for t in range(n):
        _rebuild(classes, price, labels, t, -1, union[t], cost)
    without = np.zeros_like(bits[0])
    alone = np.zeros(n)
    for i in order:
        home = labels[i]
        _rebuild(classes, price, labels, home, i, without, alone)
        left = alone[home]
        empty = left < 0
        saved_by_leaving = cost[home] - max(left, 0.0) + (tree if empty else 0.0)
        target, best = home, saved_by_leaving * (1 - 1e-12)
        spare = -1
        for t in range(n):
            if t == home:
                continue
            if cost[t] < 0:
                spare = t
                continue
            more = _cost_with(classes, price, labels, t, i, union[t]) - cost[t]
            if more < best:
                target, best = t, more
        if spare >= 0 and not empty:
            more = tree + combine * final_operations(code, rates[i], loads[i], NO_LOAD)
            if more < best:
                target, best = spare, more
        if target != home:
            labels[i] = target
            _rebuild(classes, price, labels, home, -1, union[home], cost)
            _rebuild(classes, price, labels, target, -1, union[target], cost)


@njit(cache=True, nogil=True)
def _rebuild(classes, price, labels, t, without, union, cost):  # type: ignore[no-untyped-def]
    """Compute the union and the cost of tree t, one class left out; a cost of -1 where nothing is left."""
    bits, counts, rates, loads = classes
    code, _, combine = price
    union[:] = 0
    load = NO_LOAD.copy()
    rate, count, highest = 0.0, 0, 0.0
    for k in range(labels.size):
        if labels[k] == t and k != without:
            union |= bits[k]
            add_load(load, loads[k])
            rate += rates[k]
            count += counts[k]
            highest = max(highest, rates[k])
    if highest == 0:
        cost[t] = -1.0
        return
    edges = max(count_common(union, union) * rate / count, highest) if count else rate
    cost[t] = combine * final_operations(code, edges, load, NO_LOAD)


@njit(cache=True, nogil=True)
def _cost_with(classes, price, labels, t, i, union):  # type: ignore[no-untyped-def]
    """Return the cost of tree t with class i."""
    bits, counts, rates, loads = classes
    code, _, combine = price
    load = loads[i].copy()
    rate, count, highest = rates[i], counts[i], rates[i]
    for k in range(labels.size):
        if labels[k] == t:
            add_load(load, loads[k])
            rate += rates[k]
            count += counts[k]
            highest = max(highest, rates[k])
    if count == 0:
        return combine * final_operations(code, rate, load, NO_LOAD)
    together = count_common(union, union) + counts[i] - count_common(union, bits[i])
    return combine * final_operations(code, max(together * rate / count, highest), load, NO_LOAD)
