"""G_TL: every query a tree of its own, the dearest first to the least busy node (Shein 2019, algorithm 4)."""

from __future__ import annotations

import numpy as np

from weft.planning.nodes.placing import to_lowest
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy


@strategy("G_TL", merge=False, places=True)
def group_to_lowest(problem: Problem) -> TreeAssignment:
    """No sharing, each tree to the least busy node."""
    trees = TreeAssignment.of(np.arange(len(problem)))
    return trees.on(to_lowest(problem.costs(trees).trees, problem.capacities))
