"""W_RR: classes on nodes in turn, one tree per node (Shein 2019, section 6.4)."""

from __future__ import annotations

import numpy as np

from weft.planning.nodes.placing import in_turn
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy


@strategy("W_RR", places=True)
def weave_round_robin(problem: Problem) -> TreeAssignment:
    """One tree per node, nodes in turn."""
    return TreeAssignment.of(in_turn(problem), np.arange(problem.nodes))
