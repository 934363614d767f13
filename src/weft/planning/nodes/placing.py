"""Putting things on nodes: dearest to the least busy, at random, or in turn."""

from __future__ import annotations

import heapq

import numpy as np

from weft.planning.problem import Problem


def to_lowest(costs: np.ndarray, capacities: np.ndarray) -> np.ndarray:
    """Each tree, dearest first, to the node that is least busy with it; busy is cost for capacity.

    >>> to_lowest(np.array([3.0, 2.0, 2.0]), np.ones(2)).tolist()
    [0, 1, 1]
    """
    node_of = np.zeros(costs.size, dtype=np.int64)
    dearest = np.argsort(-costs, kind="stable").tolist()
    if np.ptp(capacities) == 0:
        nodes = [(0.0, node) for node in range(capacities.size)]
        for tree in dearest:
            load, node = nodes[0]
            node_of[tree] = node
            heapq.heapreplace(nodes, (load + costs[tree], node))
        return node_of
    loads = np.zeros(capacities.size)
    for tree in dearest:
        node = int(np.argmin((loads + costs[tree]) / capacities))
        loads[node] += costs[tree]
        node_of[tree] = node
    return node_of


def at_random(problem: Problem) -> np.ndarray:
    """A node for each class, stronger ones as much more often."""
    shares = problem.capacities / problem.capacities.sum()
    return problem.random.choice(problem.nodes, len(problem), p=shares)


def in_turn(problem: Problem) -> np.ndarray:
    """A node for each class, one after the other; stronger ones have as many more turns."""
    if np.ptp(problem.capacities) == 0:
        return np.arange(len(problem)) % problem.nodes
    turns = np.arange(1, len(problem) + 1)[:, None] / problem.capacities[None, :]
    first = np.argsort(turns.ravel(), kind="stable")[: len(problem)]
    return first % problem.nodes
