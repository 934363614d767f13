"""W_TL: the dearest class first to the least busy node and into its one tree (Shein 2019, algorithm 4)."""

from __future__ import annotations

from weft.optimize.nodes.assigning import assign
from weft.optimize.problem import Grouping, Problem
from weft.optimize.registry import strategy


@strategy("W_TL", places=True)
def weave_to_lowest(problem: Problem) -> Grouping:
    """One tree per node, each class to the least busy node."""
    return assign(problem, inserted=False, group=False)
