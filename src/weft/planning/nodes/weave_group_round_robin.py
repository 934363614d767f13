"""WG_RR: classes on nodes in turn, there into each tree and a new one in turn (Shein 2019, section 6.4)."""

from __future__ import annotations

from itertools import count

from weft.planning.nodes.choosing import choose_trees
from weft.planning.nodes.placing import in_turn
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy


@strategy("WG_RR", places=True)
def weave_group_round_robin(problem: Problem) -> TreeAssignment:
    """Nodes in turn, trees in turn."""
    turn = count()
    return choose_trees(in_turn(problem), lambda trees: next(turn) // problem.nodes % (trees + 1))
