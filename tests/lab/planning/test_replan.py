"""Nodes that come and go: the trees that move, and what the plan costs then."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from lab.planning.replan import replan
from lab.planning.workload import Workload
from weft.errors import QueryError
from weft.planning.nodes.placing import to_lowest
from weft.planning.planner import plan


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


def test_nodes_come_and_go_where_rows_are_counted_too() -> None:
    text = "SELECT count(*) AS n FROM t [RANGE '{} s' SLIDE '{} s']"
    windows = ((12, 5), (30, 10), (7, 7), (9, 3))
    timed = [weft.sql(text.format(*w))[0].renamed(f"q{n}") for n, w in enumerate(windows)]
    rows = weft.sql("-- name: rows\nSELECT sum(x) AS s FROM t [ROWS 100 SLIDE 10]")
    before = plan([*timed, *rows], rate=10.0, strategy="no-share", nodes=2)
    fewer = replan(before, [1, 0])
    assert {tree.node for tree in fewer.trees} == {0}
    assert [tree.cost for tree in fewer.trees] == pytest.approx([tree.cost for tree in before.trees])
    assert np.isclose(fewer.cost, before.cost)
