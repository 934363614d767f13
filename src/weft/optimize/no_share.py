"""no-share: every query has a tree, and slices, of its own."""

from __future__ import annotations

import numpy as np

from weft.optimize.problem import Grouping, Problem
from weft.optimize.registry import strategy


@strategy("no-share", merge=False)
def no_share(problem: Problem) -> Grouping:
    """One tree per query."""
    return Grouping.of(np.arange(len(problem)))
