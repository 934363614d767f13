"""Annealing: single moves from a grouping on nodes towards bounds on the total and on the busiest node.

Kirkpatrick, Gelatt, Vecchi, Science 1983. What is made small is how far nodes are above the one bound and the
total above the other, each as a share of it, and a little of the total itself. A move puts one part into
another tree or a tree of its own, exchanges two parts, or puts a tree on another node or exchanges two. A
part is a class or one query of it: trees keep count of each class, since edges depend only on which are
there.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from weft.cost.load import ANSWERS, COLUMNS, LONGEST, SHORTEST, final_operations
from weft.optimize.table import popcount

HOT, COLD, THRIFT = 0.02, 1e-5, 1e-3
NO_TREE = -1.0
KINDS, MOVES, ELSEWHERE, SWAP_PARTS = 9, 5, 5, 8
"""Of nine kinds drawn, those below 5 move a part, 5 puts a tree elsewhere, 6 and 7 swap two trees' nodes, and
8 swaps two parts."""


@njit(cache=True, nogil=True)
def anneal(  # type: ignore[no-untyped-def]
    bits,
    counts,
    rates,
    class_of,
    loads,
    code,
    price,
    capacities,
    tree_of,
    node_of,
    most_total,
    most_busy,
    steps,
    seed,
):
    """The best trees and nodes on the way; ``tree_of`` is per part, ``node_of`` per tree, as many as parts.

    ``price`` is per node, per tree, per final operation, per answer, and whether a lone tree is free of its
    own.
    """
    np.random.seed(seed)
    n, nodes = tree_of.size, capacities.size
    held, cost, busy, trees = _set_up(
        bits, counts, rates, class_of, loads, code, price, nodes, tree_of, node_of
    )
    score = _score(busy, trees, capacities, price, most_total, most_busy)
    best, best_trees, best_nodes = score, tree_of.copy(), node_of.copy()
    for step in range(steps):
        heat = HOT * (COLD / HOT) ** (step / steps)
        i = np.random.randint(n)
        a, kind = tree_of[i], np.random.randint(KINDS)
        j = np.random.randint(n) if kind >= MOVES else np.random.randint(n + 2)
        b = tree_of[j] if j < n else _spare(cost)
        if b < 0 or a == b:
            continue
        new_a, new_b = cost[a], cost[b]
        node_a, node_b = node_of[a], node_of[b]
        if kind < MOVES or kind == SWAP_PARTS:
            if j >= n:
                node_b = np.random.randint(nodes)
            _move_parts(held, tree_of, class_of, kind, i, j, a, b)
            new_a = _tree_cost(bits, counts, rates, held[a], loads, tree_of, a, code, price)
            new_b = _tree_cost(bits, counts, rates, held[b], loads, tree_of, b, code, price)
        elif kind == ELSEWHERE:
            node_a = np.random.randint(nodes)
        else:
            node_a, node_b = node_b, node_a
        _shift(busy, trees, node_of[a], cost[a], node_of[b], cost[b], node_a, new_a, node_b, new_b)
        then = _score(busy, trees, capacities, price, most_total, most_busy)
        if then <= score or np.random.random() < np.exp((score - then) / heat):
            score = then
            cost[a], cost[b] = new_a, new_b
            node_of[a], node_of[b] = node_a, node_b
            if score < best:
                best = score
                best_trees[:] = tree_of
                best_nodes[:] = node_of
            continue
        _shift(busy, trees, node_a, new_a, node_b, new_b, node_of[a], cost[a], node_of[b], cost[b])
        _move_parts(held, tree_of, class_of, kind, i, j, b, a)
    return best_trees, best_nodes


@njit(cache=True, nogil=True)
def _set_up(bits, counts, rates, class_of, loads, code, price, nodes, tree_of, node_of):  # type: ignore[no-untyped-def]
    """How many parts of each class each tree holds, what trees cost, and what is on each node."""
    n = tree_of.size
    held = np.zeros((n, rates.size), np.int32)
    for i in range(n):
        held[tree_of[i], class_of[i]] += 1
    cost = np.full(n, NO_TREE)
    busy = np.zeros(nodes)
    trees = np.zeros(nodes, np.int64)
    for t in range(n):
        cost[t] = _tree_cost(bits, counts, rates, held[t], loads, tree_of, t, code, price)
        _put(busy, trees, node_of[t], cost[t], 1)
    return held, cost, busy, trees


@njit(cache=True, nogil=True)
def _shift(busy, trees, from_a, cost_a, from_b, cost_b, to_a, new_a, to_b, new_b):  # type: ignore[no-untyped-def]
    """Take two trees from their nodes and put them, at what they cost then, on others."""
    _put(busy, trees, from_a, cost_a, -1)
    _put(busy, trees, from_b, cost_b, -1)
    _put(busy, trees, to_a, new_a, 1)
    _put(busy, trees, to_b, new_b, 1)


@njit(cache=True, nogil=True)
def _put(busy, trees, node, cost, sign):  # type: ignore[no-untyped-def]
    """Put a tree on a node, or take it away; nothing where there is no tree."""
    if cost != NO_TREE:
        busy[node] += sign * cost
        trees[node] += sign


@njit(cache=True, nogil=True)
def _score(busy, trees, capacities, price, most_total, most_busy):  # type: ignore[no-untyped-def]
    total, over = 0.0, 0.0
    for k in range(busy.size):
        cost = busy[k]
        if trees[k]:
            cost += price[0]
            if trees[k] > 1 or not price[4]:
                cost += price[1] * trees[k]
        total += cost
        over += max(0.0, cost / capacities[k] / most_busy - 1)
    return over + max(0.0, total / most_total - 1) + THRIFT * total / most_total


@njit(cache=True, nogil=True)
def _spare(cost):  # type: ignore[no-untyped-def]
    for t in range(cost.size):
        if cost[t] == NO_TREE:
            return t
    return -1


@njit(cache=True, nogil=True)
def _move_parts(held, tree_of, class_of, kind, i, j, a, b):  # type: ignore[no-untyped-def]
    """Part i from tree a to b, and part j the other way where the two are swapped."""
    if kind < MOVES or kind == SWAP_PARTS:
        _move(held, tree_of, class_of, i, a, b)
    if kind == SWAP_PARTS:
        _move(held, tree_of, class_of, j, b, a)


@njit(cache=True, nogil=True)
def _move(held, tree_of, class_of, i, a, b):  # type: ignore[no-untyped-def]
    tree_of[i] = b
    held[a, class_of[i]] -= 1
    held[b, class_of[i]] += 1


@njit(cache=True, nogil=True)
def _tree_cost(bits, counts, rates, held, loads, tree_of, t, code, price):  # type: ignore[no-untyped-def]
    """What the final operations and answers of tree t cost with the parts it has now."""
    load = np.zeros(COLUMNS)
    load[SHORTEST] = np.inf
    empty = True
    for i in range(tree_of.size):
        if tree_of[i] == t:
            empty = False
            for column in range(LONGEST):
                load[column] += loads[i, column]
            load[LONGEST] = max(load[LONGEST], loads[i, LONGEST])
            load[SHORTEST] = min(load[SHORTEST], loads[i, SHORTEST])
    if empty:
        return NO_TREE
    rate, count, highest = 0.0, 0, 0.0
    present = np.flatnonzero(held)
    for c in present:
        rate += rates[c]
        count += counts[c]
        highest = max(highest, rates[c])
    if present.size > 1 and count:
        union = np.uint64(0)
        for w in range(bits.shape[1]):
            word = np.uint64(0)
            for c in present:
                word |= bits[c, w]
            union += popcount(word)
        rate = max(np.int64(union) * rate / count, highest)
    nothing = np.zeros(COLUMNS)
    nothing[SHORTEST] = np.inf
    return price[2] * final_operations(code, rate, load, nothing) + price[3] * load[ANSWERS]
