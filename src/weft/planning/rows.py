"""Plans of windows counted in rows: a tree for each group-by and predicate, whose rows have the same numbers.

They are planned as windows in time at one row per microsecond, and scaled to the rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.model.expression import Expr
from weft.model.query import Query
from weft.planning.plan import Plan

ROW_A_MICROSECOND = 1_000_000.0


def numbered_alike(queries: Sequence[Query]) -> list[list[Query]]:
    """Queries whose rows have the same numbers, together.

    What names mean is known with the schemas, once tables are joined: any two queries may then be alike.
    """
    classes: dict[tuple[tuple[str, ...], Expr | None] | None, list[Query]] = {}
    joined = any(query.lookups for query in queries)
    for query in queries:
        classes.setdefault(None if joined else (query.group_by, query.predicate), []).append(query)
    return list(classes.values())


def at_rate(plan: Plan, rate: float) -> Plan:
    """The same plan at another rate of rows, where windows are in rows."""
    scale = rate / plan.rate
    trees = tuple(replace(t, edge_rate=t.edge_rate * scale, cost=t.cost * scale) for t in plan.trees)
    return replace(plan, trees=trees, rate=rate, cost=plan.cost * scale, alone=plan.alone * scale)


def joined(plans: Sequence[Plan], queries: Sequence[Query]) -> Plan:
    """One plan, its trees in order of their first query."""
    place = {id(query): number for number, query in enumerate(queries)}
    trees = sorted((t for plan in plans for t in plan.trees), key=lambda tree: place[id(tree.queries[0])])
    cost, alone = (sum(each) for each in zip(*((plan.cost, plan.alone) for plan in plans)))
    return replace(plans[0], trees=tuple(trees), cost=cost, alone=alone)
