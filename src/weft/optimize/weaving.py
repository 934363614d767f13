"""Weaving any number of classes with the compiled greedy: all at once, or in blocks and then their trees.

The greedy compares every tree with every other, so above a few thousand classes it is run on blocks of
neighbours in edge rate (classes of one slide, and of slides nearly as long, have the most to share at the
least loss), and then on the trees of all blocks together, as long as that makes fewer of them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from weft.cost.load import NOTHING, add_load
from weft.optimize.greedy import weave
from weft.optimize.problem import TOGETHER, Grouping, Problem
from weft.optimize.table import count_rows, rate_of

ALL = np.zeros(0, dtype=np.bool_)
_NOTHING = NOTHING


def weave_classes(
    problem: Problem,
    start: np.ndarray | None = None,
    stop_at: int = 1,
    force_to: int = 0,
    dirty: np.ndarray = ALL,
) -> np.ndarray:
    """The tree of each class after weaving; ``start`` gives the trees to begin with, else each class is one.

    ``stop_at`` ends at so few trees, ``force_to`` goes on at a loss while there are more; ``dirty`` marks the
    trees that may be merged, with any other.
    """
    labels = Grouping.of(np.arange(len(problem)) if start is None else start).tree_of
    while True:
        trees = int(labels.max()) + 1
        order = np.argsort(_rates(problem, labels, trees), kind="stable")
        size = TOGETHER if trees <= 20 * TOGETHER else TOGETHER // 2
        blocks = np.array_split(order, -(-trees // size))
        merged = np.arange(trees)
        for block in blocks:
            last = len(blocks) == 1
            stop = stop_at if last else -(-stop_at * len(block) // trees)
            force = force_to if last else (TOGETHER // len(blocks) if force_to else 0)
            merged[block] = block[_weave_trees(problem, labels, block, stop, force, dirty)]
        labels = Grouping.of(merged[labels]).tree_of
        if len(blocks) == 1 or int(labels.max()) + 1 > 0.9 * trees:
            return labels
        dirty = ALL


def _weave_trees(
    problem: Problem, labels: np.ndarray, block: np.ndarray, stop: int, force: int, dirty: np.ndarray
) -> np.ndarray:
    bits, counts, rates, loads = joined(problem, labels, block)
    price = problem.price
    marks = dirty[block] if dirty.size else ALL
    return weave(bits, counts, rates, loads, problem.code, price.tree, price.combine, stop, force, marks)


def joined(
    problem: Problem, labels: np.ndarray, trees: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Bits, their counts, edge rates and loads of these trees."""
    table = problem.table
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(int(labels.max()) + 2))
    bits, rates, loads = _join(table.bits, table.counts, table.rates, problem.loads, order, starts, trees)
    return bits, count_rows(bits), rates, loads


def _rates(problem: Problem, labels: np.ndarray, trees: int) -> np.ndarray:
    """The highest rate of a class in each tree, enough to order them by."""
    rates = np.zeros(trees)
    np.maximum.at(rates, labels, problem.edges.rates)
    return rates


@njit(cache=True, nogil=True)
def _join(bits, counts, rates, loads, order, starts, trees):  # type: ignore[no-untyped-def]
    out_bits = np.zeros((trees.size, bits.shape[1]), np.uint64)
    out_rates = np.zeros(trees.size)
    out_loads = np.zeros((trees.size, loads.shape[1]))
    for t in range(trees.size):
        members = order[starts[trees[t]] : starts[trees[t] + 1]]
        out_loads[t] = _NOTHING
        for i in members:
            out_bits[t] |= bits[i]
            add_load(out_loads[t], loads[i])
        out_rates[t] = rate_of(bits, counts, rates, members)
    return out_bits, out_rates, out_loads
