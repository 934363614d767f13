"""Weaving any number of classes with the compiled greedy: all at once, or in blocks and then their trees.

The greedy compares every tree with every other, so above a few thousand classes it is run on blocks of
neighbours in edge rate (classes of one slide, and of slides nearly as long, have the most to share at the
least loss), and then on the trees of all blocks together, as long as that makes fewer of them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from weft.planning.cost.load import NO_LOAD, add_load
from weft.planning.problem import MAX_COMPARED_CLASSES, Problem, TreeArrays, TreeAssignment
from weft.planning.strategies.greedy import weave
from weft.planning.table import count_rows, rate_of

ALL_TREES = np.zeros(0, dtype=np.bool_)


def weave_classes(
    problem: Problem,
    start: np.ndarray | None = None,
    stop_at: int = 1,
    force_to: int = 0,
    dirty: np.ndarray = ALL_TREES,
) -> np.ndarray:
    """Return the tree of each class after weaving; ``start`` has the trees to begin with, else classes are.

    ``stop_at`` ends at so few trees, ``force_to`` goes on at a loss while there are more; ``dirty`` marks the
    trees that may be merged, with any other.
    """
    labels = TreeAssignment.of(np.arange(len(problem)) if start is None else start).tree_of
    while True:
        trees = int(labels.max()) + 1
        order = np.argsort(_rates(problem, labels, trees), kind="stable")
        size = MAX_COMPARED_CLASSES if trees <= 20 * MAX_COMPARED_CLASSES else MAX_COMPARED_CLASSES // 2
        blocks = np.array_split(order, -(-trees // size))
        merged = np.arange(trees)
        for block in blocks:
            last = len(blocks) == 1
            stop = stop_at if last else -(-stop_at * len(block) // trees)
            force = force_to if last else (MAX_COMPARED_CLASSES // len(blocks) if force_to else 0)
            merged[block] = block[_weave_trees(problem, labels, block, stop, force, dirty)]
        labels = TreeAssignment.of(merged[labels]).tree_of
        if len(blocks) == 1 or int(labels.max()) + 1 > 0.9 * trees:
            return labels
        dirty = ALL_TREES


def _weave_trees(
    problem: Problem, labels: np.ndarray, block: np.ndarray, stop: int, force: int, dirty: np.ndarray
) -> np.ndarray:
    marks = dirty[block] if dirty.size else ALL_TREES
    return weave(merged_trees(problem, labels, block), problem.tree_price, stop, force, marks)


def merged_trees(problem: Problem, labels: np.ndarray, trees: np.ndarray) -> TreeArrays:
    """Return the trees with these numbers, made of the classes that have them as labels."""
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(int(labels.max()) + 2))
    bits, rates, loads = _merge(problem.class_trees, order, starts, trees)
    return TreeArrays(bits, count_rows(bits), rates, loads)


def _rates(problem: Problem, labels: np.ndarray, trees: int) -> np.ndarray:
    """Return the highest rate of a class in each tree, enough to order them by."""
    rates = np.zeros(trees)
    np.maximum.at(rates, labels, problem.edges.rates)
    return rates


@njit(cache=True, nogil=True)
def _merge(classes, order, starts, trees):  # type: ignore[no-untyped-def]
    bits, counts, rates, loads = classes
    out_bits = np.zeros((trees.size, bits.shape[1]), np.uint64)
    out_rates = np.zeros(trees.size)
    out_loads = np.zeros((trees.size, loads.shape[1]))
    for t in range(trees.size):
        members = order[starts[trees[t]] : starts[trees[t] + 1]]
        out_loads[t] = NO_LOAD
        for i in members:
            out_bits[t] |= bits[i]
            add_load(out_loads[t], loads[i])
        out_rates[t] = rate_of(bits, counts, rates, members)
    return out_bits, out_rates, out_loads
