"""Small problems for tests of the optimizer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from weft.planning.planner import make_price
from weft.planning.problem import Problem
from weft.planning.windows import SECOND, Windows

Rows = Sequence[tuple[int, int, int]]

rows = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 12), st.integers(0, 12)), min_size=1, max_size=8)
"""Windows as (range, slide, offset) in seconds."""


def windows(some: Rows) -> Windows:
    ranges, slides, offsets = (np.array(column, dtype=np.int64) * SECOND for column in zip(*some))
    return Windows(ranges, slides, offsets % slides)


def problem(
    rows: Rows,
    rate: float = 10.0,
    technique: str = "recompute",
    model: str = "separate",
    capacities: Sequence[float] = (1.0,),
    merge: bool = True,
) -> Problem:
    made = windows(rows)
    return Problem.of(made, make_price(made, "pairs", rate, model), technique, capacities, merge=merge)


EXAMPLE_3 = [(16, 4, 0), (10, 5, 0), (8, 4, 0)]
"""Guirguis et al., CIKM 2011, example 3."""
