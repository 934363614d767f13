"""Strategies for many nodes: their shape, the bounds ours keeps, unequal nodes, nodes that come and go."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.planning.workload import Workload, distributed_workloads
from support.problems import Rows, problem, rows
from weft.errors import QueryError
from weft.planning.nodes.placing import to_lowest
from weft.planning.nodes.replan import replan
from weft.planning.planner import make_price, plan
from weft.planning.problem import Problem
from weft.planning.registry import STRATEGIES, find_strategy

PLACING = [s.name for s in STRATEGIES.values() if s.places]


def made(work: Workload, model: str = "separate", merge: bool = True) -> Problem:
    windows = work.windows()
    price = make_price(windows, "pairs", work.rate, model)
    return Problem.of(windows, price, "recompute", (1.0,) * work.nodes, merge=merge, seed=work.seed)


@pytest.mark.parametrize("name", [n for n in PLACING if n.startswith("W_")])
@given(rows, st.integers(1, 4))
@settings(deadline=None, max_examples=15)
def test_weave_only_has_one_tree_per_node(name: str, some: Rows, nodes: int) -> None:
    grouping = find_strategy(name)(problem(some, capacities=[1.0] * nodes))
    assert len(set(grouping.node_of.tolist())) == grouping.trees


@pytest.mark.parametrize("name", [n for n in PLACING if n.startswith("G_")])
@given(rows, st.integers(1, 4))
@settings(deadline=None, max_examples=15)
def test_group_only_shares_nothing(name: str, some: Rows, nodes: int) -> None:
    grouping = find_strategy(name)(problem(some, capacities=[1.0] * nodes, merge=False))
    assert grouping.trees == len(some)


# Every 17th of the 256, so that each setting comes up; `weft bench distributed` goes through them all.
@pytest.mark.parametrize("work", list(distributed_workloads())[::17], ids=str)
def test_ours_has_the_total_of_wg_tn_and_the_balance_of_wg_i(work: Workload) -> None:
    bounds = made(work)
    total = bounds.costs(find_strategy("WG_TN")(bounds)).total
    largest = bounds.costs(find_strategy("WG_I")(bounds)).largest(bounds.capacities)
    ours = made(work, model="per-node")
    costs = ours.costs(find_strategy("weave-balance")(ours, {"steps": 5_000}))
    assert costs.total <= total * (1 + 1e-9)
    assert costs.largest(ours.capacities) <= largest * (1 + 1e-9)


@pytest.mark.parametrize("name", ["G_TL", "WG_TN", "WG_I", "weave-balance"])
def test_a_stronger_node_gets_more(name: str) -> None:
    queries = Workload(queries=200, longest=40, overlap=30, rate=10.0).as_queries()
    placed = plan(queries, 10.0, name, technique="recompute", capacities=[1.0, 1.0, 4.0])
    weak, other, strong = placed.node_costs
    assert strong > 1.5 * max(weak, other)


@given(st.lists(st.floats(1, 100), min_size=1, max_size=20), st.integers(1, 5))
def test_no_node_is_above_the_mean_by_more_than_a_tree(costs: list[float], nodes: int) -> None:
    values = np.array(costs)
    busy = np.bincount(to_lowest(values, np.ones(nodes)), values, nodes)
    assert busy.max() <= values.sum() / nodes + values.max() + 1e-9


def test_a_node_that_goes_moves_only_its_trees() -> None:
    queries = Workload(queries=100, longest=40, overlap=30).as_queries()
    before = plan(queries, 10.0, "no-share", nodes=4, technique="recompute")
    after = replan(before, [1, 0, 1, 1])
    moved = [a.node for a, b in zip(before.trees, after.trees) if a.node != b.node]
    assert set(moved) == {1}
    assert all(tree.node != 1 for tree in after.trees)
    assert after.cost == pytest.approx(before.cost)
    assert [t.queries for t in after.trees] == [t.queries for t in before.trees]


def test_a_node_that_comes_takes_no_more_than_it_must() -> None:
    queries = Workload(queries=100, longest=40, overlap=30).as_queries()
    before = plan(queries, 10.0, "no-share", nodes=4, technique="recompute")
    after = replan(before, [1] * 5)
    moved = [b for a, b in zip(before.trees, after.trees) if a.node != b.node]
    assert moved and all(tree.node == 4 for tree in moved)
    costs = np.array([tree.cost for tree in before.trees])
    afresh = np.bincount(to_lowest(costs, np.ones(5)), costs).max()
    assert max(after.node_costs) <= 1.1 * afresh + 1e-9
    # A fresh placement of the same trees would have moved most of them.
    assert len(moved) <= 30


def test_replan_refuses_what_makes_no_sense() -> None:
    before = plan(Workload(queries=3, longest=5, overlap=3).as_queries(), nodes=2)
    with pytest.raises(QueryError, match="the plan has 2 nodes, but there are 1 capacities"):
        replan(before, [1])
    with pytest.raises(QueryError, match="one of them positive"):
        replan(before, [0, 0])
