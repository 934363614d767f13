"""The tree: queries that share one set of slices."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.query import Query
from weft.slicing import SLICERS, Progression, reduce_progressions


@dataclass(frozen=True, slots=True)
class Tree:
    """Queries that share one set of slices, answered by one technique on one node.

    ``edge_rate`` is in edges per second, ``cost`` in the plan's unit; ``expected`` is what *auto* should
    choose. ``stream`` is whose rows they are, where a plan is of streams that have names.
    """

    queries: tuple[Query, ...]
    technique: str
    node: int = 0
    slicer: str = "pairs"
    edge_rate: float = 0.0
    cost: float = 0.0
    expected: tuple[str, ...] = ()
    stream: str = ""

    @property
    def answered_by(self) -> str:
        """The technique in words.

        >>> Tree((), "auto", expected=("bulk", "recompute")).answered_by
        'bulk, recompute (auto)'
        """
        return f"{', '.join(self.expected)} ({self.technique})" if self.expected else self.technique

    @property
    def rows(self) -> bool:
        """True where its windows are counted in rows, and its edges are numbers of rows."""
        return self.queries[0].window.rows

    @property
    def progressions(self) -> tuple[Progression, ...]:
        """The edges of the tree's slices."""
        cut = SLICERS[self.slicer]
        windows = dict.fromkeys(q.window for q in self.queries)
        return reduce_progressions(p for w in windows for p in cut(w))
