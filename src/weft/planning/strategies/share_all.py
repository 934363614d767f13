"""share-all: one tree, one set of slices for every query (Krishnamurthy, Wu, Franklin, SIGMOD 2006)."""

from __future__ import annotations

import numpy as np

from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy


@strategy("share-all")
def share_all(problem: Problem) -> TreeAssignment:
    """All queries in one tree."""
    return TreeAssignment.of(np.zeros(len(problem), dtype=np.int64))
