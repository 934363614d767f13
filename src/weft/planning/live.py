"""Plans for a running stream, whose queries come and go.

By *incremental-weave-share* only trees that a change touches are woven again, and a plan is made from scratch
in the background when the running one has become too dear; by other strategies, at every change.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from weft.model.query import Query
from weft.planning.nodes.placing import to_lowest
from weft.planning.plan import Plan
from weft.planning.planner import plan
from weft.planning.registry import STRATEGIES, find_strategy
from weft.planning.rows import joined
from weft.planning.strategies.incremental_weave_share import IncrementalWeaveShare


class LivePlanner:
    """A planner that makes a plan whenever the queries have changed.

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
        streams: Collection[str] | None = None,
    ) -> None:
        self.strategy, self.technique, self.slicer = find_strategy(strategy).name, technique, slicer
        self.nodes, self.rate, self.streams = nodes, rate, streams
        self._running: IncrementalWeaveShare | None = None
        self._planned: dict[str, Query] = {}

    @classmethod
    def of(cls, plan: Plan, streams: Collection[str] | None = None) -> LivePlanner:
        """Return a planner that goes on from a plan in its manner."""
        strategy = plan.strategy if plan.strategy in STRATEGIES else "share-all"
        if not plan.trees:
            return cls(strategy, nodes=plan.nodes, rate=plan.rate, streams=streams)
        tree = plan.trees[0]
        return cls(strategy, tree.technique, plan.nodes, tree.slicer, plan.rate, streams)

    def __call__(self, queries: Sequence[Query]) -> Plan:
        """Return the plan for these queries."""
        if not queries:
            return Plan((), self.strategy, self.rate, self.nodes)
        if self.strategy == "incremental-weave-share":
            return self._woven(queries)
        return self._plan(queries, self.strategy)

    def alone(self, query: Query) -> Plan:
        """Return the plan for one query, whatever runs."""
        return self._plan([query], "share-all")

    def _plan(self, queries: Sequence[Query], strategy: str) -> Plan:
        return plan(
            queries, self.rate, strategy, self.nodes, self.technique, self.slicer, streams=self.streams
        )

    def _woven(self, queries: Sequence[Query]) -> Plan:
        in_time = {q.name: q for q in queries if not q.window.rows}
        in_rows = [q for q in queries if q.window.rows]
        if self._running is None:
            background = ThreadPoolExecutor(1, thread_name_prefix="weft-plan")
            self._running = IncrementalWeaveShare(self.rate, self.technique, self.slicer, executor=background)
        self._running.rate = self.rate
        gone = [name for name, q in self._planned.items() if in_time.get(name) is not q]
        new = [q for name, q in in_time.items() if self._planned.get(name) is not q]
        if gone:
            self._running.remove(gone)
        if new:
            self._running.add(new)
        self._planned = in_time
        plans = [self._placed(self._running.plan())] if in_time else []
        if in_rows:
            plans.append(self._plan(in_rows, "share-all"))
        return replace(joined(plans, queries), strategy=self.strategy)

    def _placed(self, woven: Plan) -> Plan:
        """Return the trees on nodes, dearest first."""
        nodes = to_lowest(np.array([tree.cost for tree in woven.trees]), np.ones(self.nodes))
        trees = tuple(replace(tree, node=node) for tree, node in zip(woven.trees, nodes.tolist()))
        return replace(woven, trees=trees, nodes=self.nodes, capacities=(1.0,) * self.nodes)
