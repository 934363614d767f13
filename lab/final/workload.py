"""Calls as the engine makes them, for measuring: cells of many groups, due windows of many queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weft.aggregates.monoid import MOMENTS, PRODUCT, SUM_FLOAT, SUM_INT, Monoid


class CallNumbers(NamedTuple):
    """Cells, runs, and the cells of all runs."""

    cells: int
    runs: int
    length: int


@dataclass(frozen=True, slots=True)
class Call:
    """Queries with windows of up to ``window`` slices, evenly spread, of which each has a window due at each
    of the newest ``due`` slices, in every group; every group has a cell in every slice.

    >>> call = Call(groups=2, window=4, queries=2, due=1)
    >>> call.cells, [bounds.tolist() for bounds in call.runs()]
    (8, [[2, 6, 0, 4], [4, 8, 4, 8]])
    """

    groups: int
    window: int
    queries: int
    due: int

    @property
    def cells(self) -> int:
        """The states of all groups."""
        return self.groups * (self.window + self.due - 1)

    @property
    def numbers(self) -> CallNumbers:
        """The numbers that costs depend on."""
        low, high = self.runs()
        return CallNumbers(self.cells, len(low), int((high - low).sum()))

    def runs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the starts and the ends of runs: query by query, by time, and group by group."""
        per_group = self.window + self.due - 1
        ends = np.arange(self.window, per_group + 1)[:, np.newaxis] + per_group * np.arange(self.groups)
        sizes = -(-self.window * np.arange(1, self.queries + 1) // self.queries)
        return np.concatenate([(ends - n).ravel() for n in sizes]), np.tile(ends.ravel(), self.queries)

    def states(self, monoid: Monoid) -> np.ndarray:
        """Return random states, all different from the identity."""
        random = np.random.default_rng(0)
        words = random.integers(1, 1000, (self.cells, monoid.width))
        floats = words.view(np.float64)
        if monoid.code == SUM_INT:
            words[:, 0] = 0
        if monoid.code in (SUM_FLOAT, PRODUCT):
            floats[:, 0] = random.uniform(0.5, 1, self.cells)
        if monoid.code == SUM_FLOAT:
            floats[:, 1] = 0.0
        if monoid.code == MOMENTS:
            floats[:, 1], floats[:, 2], floats[:, 3] = (
                random.random(self.cells),
                0.0,
                random.random(self.cells),
            )
        return words
