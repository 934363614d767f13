"""Windows as arrays, and the classes of windows whose edges are the same.

Queries with the same slide and phase weave perfectly, so strategies work on classes: a million queries are
often a thousand of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.model.query import Query
from weft.slicing.progression import Progression

SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Windows:
    """Ranges, slides and offsets of many windows, in microseconds."""

    ranges: np.ndarray
    slides: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, queries: Sequence[Query]) -> Windows:
        """Return the windows of queries, in their order."""
        columns = (
            np.fromiter((getattr(q.window, name) for q in queries), np.int64, len(queries))
            for name in ("range", "slide", "offset")
        )
        return cls(*columns)

    def __len__(self) -> int:
        return self.ranges.size

    def __getitem__(self, chosen: np.ndarray) -> Windows:
        return Windows(self.ranges[chosen], self.slides[chosen], self.offsets[chosen])


@dataclass(frozen=True, slots=True)
class Edges:
    """The edges of one window each: a period and two residues, equal where start and end coincide."""

    periods: np.ndarray
    residues: np.ndarray

    @classmethod
    def of(cls, windows: Windows, slicer: str = "pairs") -> Edges:
        """Return the edges of each window; cutty cuts as pairs do, since rows may come out of order.

        >>> windows = Windows(np.array([18]), np.array([15]), np.array([0]))
        >>> Edges.of(windows).residues.tolist(), Edges.of(windows, "panes").periods.tolist()
        ([[0, 3]], [3])
        """
        if slicer == "panes":
            periods = np.gcd(windows.ranges, windows.slides)
            first = last = windows.offsets % periods
        else:
            periods = windows.slides
            first, last = windows.offsets, (windows.offsets + windows.ranges) % periods
        return cls(periods, np.stack([np.minimum(first, last), np.maximum(first, last)], axis=1))

    def __len__(self) -> int:
        return self.periods.size

    def __getitem__(self, chosen: np.ndarray) -> Edges:
        return Edges(self.periods[chosen], self.residues[chosen])

    @property
    def rates(self) -> np.ndarray:
        """Edges per second of each window alone."""
        return (1 + (self.residues[:, 0] != self.residues[:, 1])) / self.periods * SECOND

    def classes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first window of each class, in order of rate from the lowest, and every window's class.

        >>> windows = Windows(np.array([8, 16, 6, 9]), np.array([4, 4, 3, 3]), np.array([0, 0, 0, 1]))
        >>> [numbers.tolist() for numbers in Edges.of(windows).classes()]
        [[0, 2, 3], [0, 0, 1, 2]]
        """
        keys = (self.residues[:, 1], self.residues[:, 0], self.periods)
        order = np.lexsort((*keys[:2], -keys[2]))
        new = np.ones(len(self), dtype=np.bool_)
        new[1:] = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
        class_of = np.empty(len(self), dtype=np.int64)
        class_of[order] = np.cumsum(new) - 1
        return order[new], class_of

    def progressions(self) -> set[Progression]:
        """Return all distinct progressions of these edges."""
        pairs = np.unique(
            np.stack([np.repeat(self.periods, 2), self.residues.ravel()], axis=1), axis=0
        ).tolist()
        return {Progression(period, residue) for period, residue in pairs}
