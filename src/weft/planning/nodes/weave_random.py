"""W_RAND: classes on nodes at random, one tree per node (Shein 2019, section 6.4)."""

from __future__ import annotations

import numpy as np

from weft.planning.nodes.placing import at_random
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy


@strategy("W_RAND", places=True)
def weave_random(problem: Problem) -> TreeAssignment:
    """One tree per node, nodes at random."""
    return TreeAssignment.of(at_random(problem), np.arange(problem.nodes))
