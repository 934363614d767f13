"""no-share: every query has a tree, and slices, of its own."""

from __future__ import annotations

import numpy as np

from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy


@strategy("no-share", merge=False)
def no_share(problem: Problem) -> TreeAssignment:
    """One tree per query."""
    return TreeAssignment.of(np.arange(len(problem)))
