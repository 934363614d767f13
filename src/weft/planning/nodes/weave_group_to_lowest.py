"""WG_TL: the dearest class first to the least busy node, into its cheapest tree or a new one.

Shein 2019, algorithm 4.
"""

from __future__ import annotations

from weft.planning.nodes.assigning import assign
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy


@strategy("WG_TL", places=True)
def weave_group_to_lowest(problem: Problem) -> TreeAssignment:
    """Each class to the least busy node, woven there or not as costs less."""
    return assign(problem, inserted=False, group=True)
