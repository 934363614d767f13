"""Assigning classes to nodes one after the other: the algorithms *to lowest* and *inserted*.

Shein 2019, algorithms 4 and 6. Both start with one class on each node. *To lowest* gives each further class
to the least busy node; *inserted* to the node that would be least busy with it. There it becomes a tree of
its own, or is woven into one: into the node's cheapest tree (*to lowest*), or the one it weaves best with
(*inserted*). Busy is cost for capacity.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from weft.planning.cost.load import NO_LOAD, add_load, final_operations
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.table import count_common, union_rate


def assign(problem: Problem, inserted: bool, group: bool, order: np.ndarray | None = None) -> TreeAssignment:
    """Assign classes in this order, by default the dearest first, to nodes and trees.

    Without ``group`` every node has one tree.
    """
    if order is None:
        order = dearest_first(problem)
    tree_of, node_of = _assign(
        problem.class_trees, problem.tree_price, order, problem.capacities, inserted, group
    )
    return TreeAssignment.of(tree_of, node_of)


def dearest_first(problem: Problem) -> np.ndarray:
    """Return the classes in order of what each costs alone, from the most."""
    return np.argsort(-_alone(problem.edges.rates, problem.loads, problem.code), kind="stable")


@njit(cache=True, nogil=True)
def _alone(rates, loads, code):  # type: ignore[no-untyped-def]
    costs = np.zeros(rates.size)
    for i in range(rates.size):
        costs[i] = final_operations(code, rates[i], loads[i], NO_LOAD)
    return costs


@njit(cache=True, nogil=True)
def _assign(classes, price, order, capacities, inserted, group):  # type: ignore[no-untyped-def]
    """Return the tree of each class, numbered by its first class, and the node of each tree.

    A tree's own bits, rates and so on stand in its row.
    """
    bits, counts, rates, loads = classes
    code, tree, combine = price
    n = rates.size
    bits, counts, rates, loads = bits.copy(), counts.copy(), rates.copy(), loads.copy()
    tree_of = np.full(n, -1)
    node_of = np.zeros(n, np.int64)
    costs = np.zeros(n)
    trees = np.zeros(n, np.int64)
    busy = np.zeros(capacities.size)
    strongest = np.argsort(-capacities)
    m = 0
    for at in range(n):
        i = order[at]
        alone = tree + combine * final_operations(code, rates[i], loads[i], NO_LOAD)
        lowest = np.argmin(busy)
        if at < capacities.size:
            lowest = strongest[at]
        best, best_busy, best_more, best_rate, best_common = -1, np.inf, 0.0, 0.0, 0
        if at >= capacities.size:
            cheapest = -1
            if not inserted:
                for k in range(m):
                    t = trees[k]
                    if node_of[t] == lowest and (cheapest < 0 or costs[t] < costs[cheapest]):
                        cheapest = t
            for k in range(m):
                t = trees[k]
                if not inserted and t != cheapest:
                    continue
                common = count_common(bits[t], bits[i])
                rate = union_rate(rates[t], counts[t], rates[i], counts[i], common)
                more = tree + combine * final_operations(code, rate, loads[t], loads[i]) - costs[t]
                then = busy[node_of[t]] + more / capacities[node_of[t]]
                if then < best_busy:
                    best, best_busy, best_more, best_rate, best_common = t, then, more, rate, common
        if best < 0 or (group and busy[lowest] + alone / capacities[lowest] < best_busy):
            tree_of[i] = i
            node_of[i] = lowest
            costs[i] = alone
            trees[m] = i
            m += 1
            busy[lowest] += alone / capacities[lowest]
        else:
            tree_of[i] = best
            costs[best] += best_more
            rates[best] = best_rate
            counts[best] += counts[i] - best_common
            bits[best] |= bits[i]
            add_load(loads[best], loads[i])
            busy[node_of[best]] += best_more / capacities[node_of[best]]
    return tree_of, node_of
