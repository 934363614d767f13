"""G_RR: every query a tree of its own, on nodes in turn (Shein 2019, section 6.4)."""

from __future__ import annotations

import numpy as np

from weft.planning.nodes.placing import in_turn
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy


@strategy("G_RR", merge=False, places=True)
def group_round_robin(problem: Problem) -> TreeAssignment:
    """No sharing, nodes in turn."""
    return TreeAssignment.of(np.arange(len(problem)), in_turn(problem))
