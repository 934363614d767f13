"""W_TL: the dearest class first to the least busy node and into its one tree (Shein 2019, algorithm 4)."""

from __future__ import annotations

from weft.planning.nodes.assigning import assign
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy


@strategy("W_TL", places=True)
def weave_to_lowest(problem: Problem) -> TreeAssignment:
    """One tree per node, each class to the least busy node."""
    return assign(problem, inserted=False, group=False)
