"""Plans for a running stream, whose queries come and go."""

from __future__ import annotations

from collections.abc import Sequence

from weft.optimize.planner import plan
from weft.optimize.registry import STRATEGIES, find_strategy
from weft.plan import Plan
from weft.query import Query


class LivePlanner:
    """Makes a plan whenever the queries have changed.

    >>> import weft
    >>> a, b = weft.sql("SELECT count(*) AS n FROM t [RANGE '4 s']; SELECT sum(x) AS s FROM t [RANGE '5 s']")
    >>> planner = LivePlanner("no-share")
    >>> len(planner([a]).trees), len(planner([a, b]).trees), len(planner([]).trees)
    (1, 2, 0)
    """

    def __init__(
        self,
        strategy: str = "share-all",
        technique: str = "auto",
        nodes: int = 1,
        slicer: str = "pairs",
        rate: float = 1000.0,
    ) -> None:
        self.strategy, self.technique, self.slicer = find_strategy(strategy).name, technique, slicer
        self.nodes, self.rate = nodes, rate

    @classmethod
    def of(cls, plan: Plan) -> LivePlanner:
        """A planner that goes on from a plan in its manner."""
        strategy = plan.strategy if plan.strategy in STRATEGIES else "share-all"
        if not plan.trees:
            return cls(strategy, nodes=plan.nodes, rate=plan.rate)
        tree = plan.trees[0]
        return cls(strategy, tree.technique, plan.nodes, tree.slicer, plan.rate)

    def __call__(self, queries: Sequence[Query]) -> Plan:
        """The plan for these queries."""
        if not queries:
            return Plan((), self.strategy, self.rate, self.nodes)
        return plan(queries, self.rate, self.strategy, self.nodes, self.technique, self.slicer)

    def alone(self, query: Query) -> Plan:
        """The plan for one query, whatever runs."""
        return plan([query], self.rate, "share-all", self.nodes, self.technique, self.slicer)
