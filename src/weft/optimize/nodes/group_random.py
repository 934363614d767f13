"""G_RAND: every query a tree of its own, on a node at random (Shein 2019, section 6.4)."""

from __future__ import annotations

import numpy as np

from weft.optimize.nodes.placing import at_random
from weft.optimize.problem import Grouping, Problem
from weft.optimize.registry import strategy


@strategy("G_RAND", merge=False, places=True)
def group_random(problem: Problem) -> Grouping:
    """No sharing, nodes at random."""
    return Grouping.of(np.arange(len(problem)), at_random(problem))
