"""W_RR: classes on nodes in turn, one tree per node (Shein 2019, section 6.4)."""

from __future__ import annotations

import numpy as np

from weft.optimize.nodes.placing import in_turn
from weft.optimize.problem import Grouping, Problem
from weft.optimize.registry import strategy


@strategy("W_RR", places=True)
def weave_round_robin(problem: Problem) -> Grouping:
    """One tree per node, nodes in turn."""
    return Grouping.of(in_turn(problem), np.arange(problem.nodes))
