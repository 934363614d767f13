"""Strategies for many nodes: their shape, the bounds ours keeps, unequal nodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.planning.workload import Workload, distributed_workloads
from support.problems import Rows, problem, rows
from weft.planning.nodes.placing import to_lowest
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
