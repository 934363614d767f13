"""Annealing: single moves from a grouping on nodes towards bounds on the total and on the busiest node.

Kirkpatrick, Gelatt, Vecchi, Science 1983. What is made small is how far nodes are above the one bound and the
total above the other, each as a share of it, and a little of the total itself. A move puts one part into
another tree or a tree of its own, exchanges two parts, or puts a tree on another node or exchanges two. A
part is a class or one query of it: trees keep count of each class, since edges depend only on which are
there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from weft.planning.cost.load import ANSWERS, LONGEST, NO_LOAD, SHORTEST, final_operations
from weft.planning.table import popcount

START_HEAT, END_HEAT, TOTAL_WEIGHT = 0.02, 1e-5, 1e-3
NO_TREE = -1.0
KIND_COUNT, PART_MOVES, TREE_MOVE, PART_SWAP = 9, 5, 5, 8
"""Of nine kinds drawn, those below 5 move a part, 5 puts a tree elsewhere, 6 and 7 swap two trees' nodes, and
8 swaps two parts."""


class ClassEdges(NamedTuple):
    """Edges of classes, a row each: as bits, the bits set, and edges per second."""

    bits: np.ndarray
    counts: np.ndarray
    rates: np.ndarray


class TreeParts(NamedTuple):
    """Class and load of each part."""

    class_of: np.ndarray
    loads: np.ndarray


class Placement(NamedTuple):
    """The tree of each part, and the node of each tree, of which there are as many as parts."""

    tree_of: np.ndarray
    node_of: np.ndarray


class NodePrice(NamedTuple):
    """The technique's number; per node, per tree, per final operation, per answer; is a lone tree free."""

    code: int
    node: float
    tree: float
    combine: float
    answer: float
    lone_free: bool


class CostBounds(NamedTuple):
    """The most that all trees and that the busiest node, for its capacity, should cost."""

    total: float
    busiest: float


@njit(cache=True, nogil=True)
def anneal(edges, parts, price, capacities, placement, bounds, steps, seed):  # type: ignore[no-untyped-def]
    """Return the best trees and nodes on the way from a placement, which is changed."""
    np.random.seed(seed)
    tree_of, node_of = placement
    n, nodes = tree_of.size, capacities.size
    held, cost, busy, trees = _set_up(edges, parts, price, nodes, placement)
    score = _score(busy, trees, capacities, price, bounds)
    best, best_trees, best_nodes = score, tree_of.copy(), node_of.copy()
    for step in range(steps):
        heat = START_HEAT * (END_HEAT / START_HEAT) ** (step / steps)
        i = np.random.randint(n)
        a, kind = tree_of[i], np.random.randint(KIND_COUNT)
        j = np.random.randint(n) if kind >= PART_MOVES else np.random.randint(n + 2)
        b = tree_of[j] if j < n else _spare(cost)
        if b < 0 or a == b:
            continue
        new_a, new_b = cost[a], cost[b]
        node_a, node_b = node_of[a], node_of[b]
        if kind < PART_MOVES or kind == PART_SWAP:
            if j >= n:
                node_b = np.random.randint(nodes)
            _move_parts(held, tree_of, parts.class_of, kind, i, j, a, b)
            new_a = _tree_cost(edges, parts, price, held[a], tree_of, a)
            new_b = _tree_cost(edges, parts, price, held[b], tree_of, b)
        elif kind == TREE_MOVE:
            node_a = np.random.randint(nodes)
        else:
            node_a, node_b = node_b, node_a
        before = (node_of[a], cost[a]), (node_of[b], cost[b])
        after = (node_a, new_a), (node_b, new_b)
        _shift(busy, trees, before, after)
        then = _score(busy, trees, capacities, price, bounds)
        if then <= score or np.random.random() < np.exp((score - then) / heat):
            score = then
            cost[a], cost[b] = new_a, new_b
            node_of[a], node_of[b] = node_a, node_b
            if score < best:
                best = score
                best_trees[:] = tree_of
                best_nodes[:] = node_of
            continue
        _shift(busy, trees, after, before)
        _move_parts(held, tree_of, parts.class_of, kind, i, j, b, a)
    return best_trees, best_nodes


@njit(cache=True, nogil=True)
def _set_up(edges, parts, price, nodes, placement):  # type: ignore[no-untyped-def]
    """Return the parts of each class in each tree, the costs of trees, and the costs and trees of nodes."""
    tree_of, node_of = placement
    n = tree_of.size
    held = np.zeros((n, edges.rates.size), np.int32)
    for i in range(n):
        held[tree_of[i], parts.class_of[i]] += 1
    cost = np.full(n, NO_TREE)
    busy = np.zeros(nodes)
    trees = np.zeros(nodes, np.int64)
    for t in range(n):
        cost[t] = _tree_cost(edges, parts, price, held[t], tree_of, t)
        _put(busy, trees, node_of[t], cost[t], 1)
    return held, cost, busy, trees


@njit(cache=True, nogil=True)
def _shift(busy, trees, before, after):  # type: ignore[no-untyped-def]
    """Take two trees, each a node and a cost, from their nodes and put them on others."""
    (from_a, cost_a), (from_b, cost_b) = before
    (to_a, new_a), (to_b, new_b) = after
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
def _score(busy, trees, capacities, price, bounds):  # type: ignore[no-untyped-def]
    total, over = 0.0, 0.0
    for k in range(busy.size):
        cost = busy[k]
        if trees[k]:
            cost += price.node
            if trees[k] > 1 or not price.lone_free:
                cost += price.tree * trees[k]
        total += cost
        over += max(0.0, cost / capacities[k] / bounds.busiest - 1)
    return over + max(0.0, total / bounds.total - 1) + TOTAL_WEIGHT * total / bounds.total


@njit(cache=True, nogil=True)
def _spare(cost):  # type: ignore[no-untyped-def]
    for t in range(cost.size):
        if cost[t] == NO_TREE:
            return t
    return -1


@njit(cache=True, nogil=True)
def _move_parts(held, tree_of, class_of, kind, i, j, a, b):  # type: ignore[no-untyped-def]
    """Move part i from tree a to b, and part j the other way where the two are swapped."""
    if kind < PART_MOVES or kind == PART_SWAP:
        _move(held, tree_of, class_of, i, a, b)
    if kind == PART_SWAP:
        _move(held, tree_of, class_of, j, b, a)


@njit(cache=True, nogil=True)
def _move(held, tree_of, class_of, i, a, b):  # type: ignore[no-untyped-def]
    tree_of[i] = b
    held[a, class_of[i]] -= 1
    held[b, class_of[i]] += 1


@njit(cache=True, nogil=True)
def _tree_cost(edges, parts, price, held, tree_of, t):  # type: ignore[no-untyped-def]
    """Return the cost of the final operations and answers of tree t with the parts it has now."""
    bits, counts, rates = edges
    loads = parts.loads
    load = NO_LOAD.copy()
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
    operations = final_operations(price.code, rate, load, NO_LOAD)
    return price.combine * operations + price.answer * load[ANSWERS]
