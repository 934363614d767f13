"""W_RAND: classes on nodes at random, one tree per node (Shein 2019, section 6.4)."""

from __future__ import annotations

import numpy as np

from weft.optimize.nodes.placing import at_random
from weft.optimize.problem import Grouping, Problem
from weft.optimize.registry import strategy


@strategy("W_RAND", places=True)
def weave_random(problem: Problem) -> Grouping:
    """One tree per node, nodes at random."""
    return Grouping.of(at_random(problem), np.arange(problem.nodes))
