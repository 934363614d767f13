"""insert-then-weave: put each class where it costs least as it comes, then weave the trees.

Guirguis et al., CIKM 2011, section 6: the obvious simplification of Weave Share.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from weft.planning.cost.load import NO_LOAD, add_load, final_operations
from weft.planning.guard import no_worse
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy
from weft.planning.table import count_common, union_rate
from weft.planning.weaving import weave_classes


@strategy("insert-then-weave", cost_based=True)
def insert_then_weave(problem: Problem) -> TreeAssignment:
    """Classes in arbitrary order into the tree they weave best with, then the trees merged."""
    order = problem.random.permutation(len(problem))
    labels = _insert(problem.class_trees, problem.tree_price, order)
    return no_worse(problem, TreeAssignment.of(weave_classes(problem, labels)))


@njit(cache=True, nogil=True)
def _insert(classes, price, order):  # type: ignore[no-untyped-def]
    bits, counts, rates, loads = classes
    code, tree, combine = price
    n = rates.size
    labels = np.full(n, -1)
    bits, counts, rates, loads = bits.copy(), counts.copy(), rates.copy(), loads.copy()
    costs = np.zeros(n)
    trees = np.zeros(n, np.int64)
    m = 0
    for i in order:
        alone = combine * final_operations(code, rates[i], loads[i], NO_LOAD)
        best, least, best_rate, best_common = -1, tree + alone, 0.0, 0
        for k in range(m):
            t = trees[k]
            common = count_common(bits[t], bits[i])
            rate = union_rate(rates[t], counts[t], rates[i], counts[i], common)
            more = combine * final_operations(code, rate, loads[t], loads[i]) - costs[t]
            if more < least:
                best, least, best_rate, best_common = t, more, rate, common
        if best < 0:
            labels[i] = i
            costs[i] = alone
            trees[m] = i
            m += 1
        else:
            labels[i] = best
            costs[best] += least
            rates[best] = best_rate
            counts[best] += counts[i] - best_common
            bits[best] |= bits[i]
            add_load(loads[best], loads[i])
    return labels
