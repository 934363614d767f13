"""Plans for queries that come and go."""

from __future__ import annotations

import pytest

import weft
from weft.errors import QueryError
from weft.planning.live import LivePlanner
from weft.testing.questions import text, varied

ROWS = weft.sql("SELECT count(*) AS n FROM t [ROWS 5]")[0].renamed("rows")


@pytest.mark.parametrize("strategy", ["share-all", "no-share", "incremental-weave-share"])
def test_every_query_is_in_one_tree_whatever_came_before(strategy: str) -> None:
    queries = weft.sql(text(varied(30)))
    planner = LivePlanner(strategy, nodes=2)
    for some in (queries[:10], queries[5:], [ROWS], [], [*queries[20:], ROWS], queries[:1]):
        plan = planner(some)
        assert sorted(q.name for q in plan.queries) == sorted(q.name for q in some)
        assert (plan.strategy, plan.nodes) == (strategy, 2)
        assert all(0 <= tree.node < 2 for tree in plan.trees)
        assert str(plan)


def test_a_query_that_changed_under_its_name_is_planned_anew() -> None:
    one, other = weft.sql(text(varied(2)))
    planner = LivePlanner("incremental-weave-share")
    planner([one])
    assert planner([other.renamed(one.name)]).queries == (other.renamed(one.name),)


def test_the_manner_of_a_plan_is_kept() -> None:
    plan = weft.plan(weft.sql(text(varied(3))), strategy="no-share", technique="recompute", nodes=2, rate=7.0)
    again = LivePlanner.of(plan)(plan.queries)
    assert again == plan
    with pytest.raises(QueryError, match="strategy"):
        LivePlanner("no such")
