"""Why a query is where it is, strategies side by side, and plans that also count rows."""

from __future__ import annotations

import pytest

import weft
from weft.errors import QueryError
from weft.planning.compare import compare
from weft.planning.explain import explain
from weft.planning.planned import problem_of
from weft.planning.registry import STRATEGIES

TEXT = "SELECT count(*) AS n FROM t [RANGE '{0} s' SLIDE '{1} s']"


def queries(*windows: tuple[int, int]) -> list[weft.Query]:
    return [weft.sql(TEXT.format(*w))[0].renamed(f"q{n}") for n, w in enumerate(windows)]


ROWS = weft.sql("-- name: rows\nSELECT sum(x) AS s FROM t [ROWS 100 SLIDE 10]")
MIXED = [*queries((12, 5), (30, 10), (7, 7), (9, 3)), *ROWS]


@pytest.mark.parametrize("strategy", ["no-share", "share-all", "triweave", "weave-share"])
@pytest.mark.parametrize("name", [q.name for q in MIXED[:4]])
def test_the_costs_elsewhere_are_those_of_such_plans(strategy: str, name: str) -> None:
    plan = weft.plan(MIXED, rate=10.0, strategy=strategy)
    explained = explain(plan, name)
    assert name in {q.name for q in plan.trees[explained.tree].queries}
    assert [place.cost for place in explained.elsewhere] == sorted(p.cost for p in explained.elsewhere)
    timed, problem, grouping = problem_of(plan)
    rest = plan.cost - problem.costs(grouping).total
    for place in explained.elsewhere:
        # The dumb way: a plan made anew for each tree's queries, with this one moved.
        members = [[q for q in plan.trees[n].queries if q.name != name] for n in timed]
        (moved,) = (q for q in plan.queries if q.name == name)
        if place.tree is None:
            members.append([moved])
        else:
            members[timed.index(place.tree)].append(moved)
        trees = [weft.plan(some, rate=10.0, model=plan.model) for some in members if some]
        base = plan.price.base
        if plan.model == "separate":
            assert place.cost == pytest.approx(rest + sum(tree.cost for tree in trees))
        else:
            alone = sum(tree.cost - tree.price.base - tree.price.tree for tree in trees)
            assert place.cost == pytest.approx(rest + base + alone + plan.price.tree * len(trees))


def test_it_says_how_many_edges_are_there_anyway() -> None:
    plan = weft.plan(queries((10, 10), (20, 20), (15, 15)), strategy="no-share")
    explained = explain(plan, "q1")
    assert {place.tree: round(place.common, 3) for place in explained.elsewhere} == {0: 1.0, 2: 0.333}
    assert "100%" in str(explained)
    assert "It would cost less elsewhere" in str(explained)


def test_rows_and_unknown_names() -> None:
    plan = weft.plan(MIXED)
    assert "counted in rows" in str(explain(plan, "rows"))
    with pytest.raises(QueryError, match="no query is called 'nobody'; there are q0"):
        explain(plan, "nobody")


def test_nodes_of_given_capacities_are_priced_as_nodes() -> None:
    found = compare(MIXED, rate=10.0, capacities=(1.0, 0.5))
    assert {each.plan.model for each in found if each.plan} == {"per-node"}


def test_every_strategy_is_compared_at_one_price() -> None:
    found = compare(MIXED, rate=10.0, nodes=2)
    assert {each.strategy for each in found} == set(STRATEGIES)
    assert len({each.plan.price for each in found if each.plan}) == 1
    costs = [each.plan.cost for each in found if each.plan]
    assert costs == sorted(costs)


def test_a_strategy_that_cannot_is_named_with_its_reason() -> None:
    many = queries(*((n + 1, n + 1) for n in range(40)))
    (exhaustive,) = (each for each in compare(many) if each.strategy == "exhaustive")
    assert exhaustive.plan is None
    assert exhaustive.why
    assert exhaustive.to_dict()["why"] == exhaustive.why
