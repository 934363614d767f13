"""Plans for a running stream, whose queries come and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.optimize.planner import plan
from weft.optimize.registry import STRATEGIES
from weft.plan import Plan
from weft.query import Query


class LivePlanner:
    """Makes plans in the manner of a stream's first.

    >>> import weft
    >>> a, b = weft.sql("SELECT count(*) AS n FROM t [RANGE '4 s']; SELECT sum(x) AS s FROM t [RANGE '5 s']")
    >>> again = LivePlanner(weft.plan([a], strategy="no-share"))
    >>> len(again([a, b]).trees), len(again([]).trees)
    (2, 0)
    """

    def __init__(self, first: Plan) -> None:
        self._first = first
        self._strategy = first.strategy if first.strategy in STRATEGIES else "share-all"
        self._technique = first.trees[0].technique if first.trees else "auto"
        self._slicer = first.trees[0].slicer if first.trees else "pairs"

    def __call__(self, queries: Sequence[Query]) -> Plan:
        """The plan for these queries."""
        if not queries:
            return replace(self._first, trees=(), cost=0.0, alone=0.0)
        return self._plan(queries, self._strategy)

    def alone(self, query: Query) -> Plan:
        """The plan for one query, whatever runs."""
        return self._plan([query], "share-all")

    def _plan(self, queries: Sequence[Query], strategy: str) -> Plan:
        first = self._first
        return plan(
            queries,
            first.rate,
            strategy,
            first.nodes,
            self._technique,
            self._slicer,
            capacities=first.capacities or None,
        )
