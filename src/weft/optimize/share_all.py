"""share-all: one tree, one set of slices for every query (Krishnamurthy, Wu, Franklin, SIGMOD 2006)."""

from __future__ import annotations

import numpy as np

from weft.optimize.problem import Grouping, Problem
from weft.optimize.registry import strategy


@strategy("share-all")
def share_all(problem: Problem) -> Grouping:
    """All queries in one tree."""
    return Grouping.of(np.zeros(len(problem), dtype=np.int64))
