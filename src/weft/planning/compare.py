"""Strategies side by side: the plan of each for the same queries, at one price."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from weft.errors import QueryError
from weft.model.join import JoinQuery
from weft.model.query import Buildable, Query
from weft.planning.plan import Plan
from weft.planning.planner import plan as make_plan
from weft.planning.registry import STRATEGIES


@dataclass(frozen=True, slots=True)
class Compared:
    """The plan of a strategy, and the seconds it took; or why there is none."""

    strategy: str
    seconds: float
    plan: Plan | None
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        facts: dict[str, Any] = {"strategy": self.strategy, "seconds": self.seconds}
        if self.plan is None:
            return facts | {"why": self.why}
        largest = max(self.plan.node_costs)
        return facts | {"trees": len(self.plan.trees), "cost": self.plan.cost, "largest_node": largest}


def compare(queries: Iterable[Query | Buildable | JoinQuery], **options: Any) -> list[Compared]:
    """Return every strategy's plan at one price, the cheapest first; ``options`` are those of ``plan``.

    The price is that of what runs: the stream is read once, or once on each node.

    >>> import weft
    >>> text = "SELECT count(*) AS n FROM t [RANGE '{} s']"
    >>> plans = compare(weft.sql(";".join(map(text.format, (2, 3)))))
    >>> plans[0].plan.cost <= plans[-1].plan.cost
    True
    """
    queries = list(queries)
    nodes = len(options.get("capacities") or ()) or options.get("nodes", 1)
    model = options.pop("model", None) or ("composite" if nodes == 1 else "per-node")
    compared = []
    for name in STRATEGIES:
        began = time.perf_counter()
        plan, why = None, ""
        try:
            plan = make_plan(queries, strategy=name, model=model, **options)
        except QueryError as error:
            why = error.message
        compared.append(Compared(name, time.perf_counter() - began, plan, why))
    if all(entry.plan is None for entry in compared):
        raise QueryError(compared[0].why)
    return sorted(compared, key=lambda entry: (entry.plan is None, entry.plan.cost if entry.plan else 0.0))
