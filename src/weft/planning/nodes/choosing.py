"""Choosing a tree on a node that is given, without looking at costs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.planning.problem import TreeAssignment


def choose_trees(nodes: np.ndarray, choose: Callable[[int], int]) -> TreeAssignment:
    """Each class in the tree of its node that ``choose(trees there)`` names, counted from 0; or in a new one.

    >>> choose_trees(np.array([0, 0, 1]), lambda trees: 0).tree_of.tolist()
    [0, 0, 1]
    """
    trees: dict[int, list[int]] = {}
    labels = np.empty(nodes.size, dtype=np.int64)
    node_of = np.zeros(nodes.size, dtype=np.int64)
    for i, node in enumerate(nodes.tolist()):
        there = trees.setdefault(node, [])
        chosen = choose(len(there))
        if chosen == len(there):
            there.append(i)
            node_of[i] = node
        labels[i] = there[chosen]
    return TreeAssignment.of(labels, node_of)
