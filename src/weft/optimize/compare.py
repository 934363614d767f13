"""Strategies side by side: what each makes of the same queries, at one price."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.errors import QueryError
from weft.optimize.planner import plan as make_plan
from weft.optimize.registry import STRATEGIES
from weft.plan import Plan
from weft.query import JoinQuery, Query

if TYPE_CHECKING:
    from weft.builder import QueryBuilder


@dataclass(frozen=True, slots=True)
class Compared:
    """What a strategy makes of the queries and in how many seconds; or why it does not."""

    strategy: str
    seconds: float
    plan: Plan | None
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        facts: dict[str, Any] = {"strategy": self.strategy, "seconds": self.seconds}
        if self.plan is None:
            return facts | {"why": self.why}
        largest = max(self.plan.node_costs)
        return facts | {"trees": len(self.plan.trees), "cost": self.plan.cost, "largest_node": largest}


def compare(queries: Iterable[Query | QueryBuilder | JoinQuery], **options: Any) -> list[Compared]:
    """Every strategy's plan at one price, the cheapest first; ``options`` are those of ``plan``.

    The price is that of what runs: the stream is read once, or once on each node.

    >>> import weft
    >>> text = "SELECT count(*) AS n FROM t [RANGE '{} s']"
    >>> found = compare(weft.sql(";".join(map(text.format, (2, 3)))))
    >>> found[0].plan.cost <= found[-1].plan.cost
    True
    """
    queries = list(queries)
    nodes = len(options.get("capacities") or ()) or options.get("nodes", 1)
    model = options.pop("model", None) or ("composite" if nodes == 1 else "per-node")
    found = []
    for name in STRATEGIES:
        began = time.perf_counter()
        made, why = None, ""
        try:
            made = make_plan(queries, strategy=name, model=model, **options)
        except QueryError as error:
            why = error.message
        found.append(Compared(name, time.perf_counter() - began, made, why))
    if all(each.plan is None for each in found):
        raise QueryError(found[0].why)
    return sorted(found, key=lambda each: (each.plan is None, each.plan.cost if each.plan else 0.0))
