"""G_RAND: every query a tree of its own, on a node at random (Shein 2019, section 6.4)."""

from __future__ import annotations

import numpy as np

from weft.planning.nodes.placing import at_random
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy


@strategy("G_RAND", merge=False, places=True)
def group_random(problem: Problem) -> TreeAssignment:
    """No sharing, nodes at random."""
    return TreeAssignment.of(np.arange(len(problem)), at_random(problem))
