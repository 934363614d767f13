"""Nodes come and go: the same trees on other nodes, as few of them moved as will do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

import numpy as np

from weft.errors import QueryError
from weft.planning.nodes.placing import to_lowest
from weft.planning.plan import Plan
from weft.planning.planned import problem_of

DEFAULT_SLACK = 0.1


def replan(plan: Plan, capacities: Sequence[float], slack: float = DEFAULT_SLACK) -> Plan:
    """Return the plan on nodes of these capacities: 0 for one that is gone, more entries for new ones.

    Trees of nodes that are gone go to the least busy, dearest first. Others move only from the busiest node,
    and only while it is busier than it would be if all trees were placed afresh, by more than the slack.

    >>> import weft
    >>> text = "SELECT count(*) AS n FROM t [RANGE '{0} s' SLIDE '{0} s']"
    >>> queries = [weft.sql(text.format(s))[0].renamed(f"q{s}") for s in (2, 3, 5, 7, 9, 11)]
    >>> plan = weft.plan(queries, rate=10.0, strategy="no-share", nodes=2)
    >>> [tree.node for tree in plan.trees], [tree.node for tree in replan(plan, [1, 0]).trees]
    ([0, 1, 1, 0, 1, 0], [0, 0, 0, 0, 0, 0])
    >>> [tree.node for tree in replan(plan, [1, 1, 1]).trees]
    [2, 1, 1, 0, 2, 0]
    """
    strength = np.asarray(capacities, dtype=np.float64)
    if strength.size < plan.nodes:
        raise QueryError(
            f"the plan has {plan.nodes} nodes, but there are {strength.size} capacities",
            hint="give one for each, 0 for a node that is gone",
        )
    if not (strength.max() > 0 and strength.min() >= 0 and all(map(isfinite, capacities))):
        raise QueryError(f"capacities must be 0 or more, and one of them positive, not {list(capacities)}")
    costs = np.array([tree.cost for tree in plan.trees])
    nodes = _move(costs, np.array([tree.node for tree in plan.trees]), strength, slack)
    return _priced(plan, nodes, strength)


def _move(costs: np.ndarray, nodes: np.ndarray, strength: np.ndarray, slack: float) -> np.ndarray:
    nodes = nodes.copy()
    alive = np.flatnonzero(strength > 0)
    busy = np.bincount(nodes, costs, strength.size)
    for tree in np.argsort(-costs, kind="stable"):
        if strength[nodes[tree]] == 0:
            target = alive[np.argmin((busy[alive] + costs[tree]) / strength[alive])]
            busy[nodes[tree]] -= costs[tree]
            busy[target] += costs[tree]
            nodes[tree] = target
    afresh = np.bincount(to_lowest(costs, strength[alive]), costs, alive.size) / strength[alive]
    for _ in range(costs.size):
        busiest = alive[np.argmax(busy[alive] / strength[alive])]
        if busy[busiest] / strength[busiest] <= (1 + slack) * afresh.max():
            break
        idlest = alive[np.argmin(busy[alive] / strength[alive])]
        there = np.flatnonzero(nodes == busiest)
        then = np.maximum(
            (busy[busiest] - costs[there]) / strength[busiest],
            (busy[idlest] + costs[there]) / strength[idlest],
        )
        if then.min() >= busy[busiest] / strength[busiest]:
            break
        tree = there[np.argmin(then)]
        nodes[tree] = idlest
        busy[busiest] -= costs[tree]
        busy[idlest] += costs[tree]
    return nodes


def _priced(plan: Plan, nodes: np.ndarray, strength: np.ndarray) -> Plan:
    """Return the plan with its trees on these nodes, and what that costs."""
    timed, problem, before = problem_of(plan, strength.tolist())
    costs = problem.costs(before.on(nodes[timed]))
    # Windows in rows cost the same wherever they are.
    rest = plan.cost - problem.costs(before).total
    price = dict(zip(timed, costs.trees.tolist()))
    trees = tuple(
        replace(tree, node=node, cost=price.get(number, tree.cost))
        for number, (tree, node) in enumerate(zip(plan.trees, nodes.tolist()))
    )
    shares = tuple((strength / strength.max()).tolist())
    return replace(plan, trees=trees, nodes=strength.size, cost=costs.total + rest, capacities=shares)
