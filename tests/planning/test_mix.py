"""Plans of any mix of window queries and joins: streams keep their own trees, joins their chains."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import weft
from support.places import GOLDEN
from weft.errors import JobError, QueryError
from weft.planning.explain import explain
from weft.planning.joins.plan import plan_joins
from weft.planning.live import LivePlanner
from weft.planning.plan import JOINED, merged
from weft.planning.planned import problem_of
from weft.planning.registry import STRATEGIES

QUERIES = weft.sql((GOLDEN / "plans" / "windows_beside_joins.txt").read_text().partition("-" * 40)[0])
WINDOWS = [q for q in QUERIES if isinstance(q, weft.Query)]
JOINS = [q for q in QUERIES if isinstance(q, weft.JoinQuery)]


def names(plan: weft.Plan) -> list[tuple[str, list[str]]]:
    return [(tree.stream, [q.name for q in tree.queries]) for tree in plan.trees]


def test_streams_keep_trees_of_their_own_where_their_names_count() -> None:
    apart = [("temperature", ["hot", "hottest"]), ("humidity", ["damp"])]
    assert names(weft.plan(WINDOWS)) == [("", ["hot", "damp", "hottest"])]
    assert names(weft.plan(WINDOWS, streams=["humidity", "temperature"])) == apart
    assert names(weft.plan(QUERIES)) == [*apart, (JOINED, ["pairs", "above"])]
    assert names(weft.plan(JOINS)) == [(JOINED, ["pairs", "above"])]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_part_of_a_mix_is_the_plan_that_it_has_alone(strategy: str) -> None:
    options: dict[str, Any] = {"rate": 10.0, "strategy": strategy, "technique": "bulk"}
    mix = weft.plan(QUERIES, **options)
    alone = [weft.plan([q for q in WINDOWS if q.source == s], **options) for s in ("temperature", "humidity")]
    for part, plan in zip(mix.parts, alone):
        assert [replace(tree, stream="") for tree in part.trees] == list(plan.trees)
        assert (part.cost, part.alone) == (plan.cost, plan.alone)
    assert list(map(str, mix.chains)) == list(map(str, plan_joins(JOINS, 10.0)))
    assert mix.cost == pytest.approx(sum(part.cost for part in mix.parts))
    assert sum(mix.node_costs) <= mix.cost * (1 + 1e-9)


def test_costs_of_trees_and_chains_are_apart() -> None:
    mix, joins = weft.plan(QUERIES, rate=10.0), [q for q in JOINS if q.aggregate is None]
    chains = weft.plan(joins, rate=10.0)
    comparisons = sum(chain.cpu for chain in mix.chains), sum(chain.alone_cpu for chain in mix.chains)
    assert list(mix.costs.items()) == [
        ("operations/s", (mix.cost, mix.alone)),
        ("comparisons/s", comparisons),
    ]
    assert list(chains.costs.items()) == [("comparisons/s", (chains.cost, chains.alone))]
    assert chains.cost == chains.chains[0].cpu > 0
    assert list(weft.plan(WINDOWS).costs) == ["operations/s"]
    assert (mix.unit, chains.unit) == ("operations/s", "comparisons/s")


def test_plans_of_one_kind_read_as_they_did() -> None:
    joins = [q for q in JOINS if q.aggregate is None]
    assert str(weft.plan(joins)) == "\n\n".join(map(str, plan_joins(joins)))
    assert weft.plan(joins).to_dict()["chains"] == [chain.to_dict() for chain in plan_joins(joins)]
    assert set(weft.plan(WINDOWS).to_dict()) & {"chains", "costs"} == set()
    assert "stream" not in str(weft.plan([WINDOWS[1]], streams=["humidity"]))


def test_queries_over_results_share_where_their_rows_have_the_same_numbers() -> None:
    text = "SELECT count(*) AS n FROM a [RANGE '{} min'], b [RANGE '1 min'] WHERE a.x = b.x "
    text += "GROUP BY window('{}')"
    one, same, other = weft.sql(";".join(text.format(*p) for p in ((1, "1 min"), (1, "5 min"), (2, "1 min"))))
    assert names(weft.plan([one, same, other])) == [(JOINED, ["q1", "q2", "q3"])]
    rows = [
        replace(q, aggregate=replace(q.aggregate, window=weft.Window(9, 3, rows=True))) for q in (one, other)
    ]
    assert [q for _, q in names(weft.plan(rows))] == [["q1"], ["q3"]]
    (tree,) = weft.plan([one]).trees
    assert tree.queries == (one.aggregate,)  # as it was asked, not as it runs


def test_everything_is_shown() -> None:
    mix = weft.plan(QUERIES, rate=10.0)
    assert [q.name for q in mix.all_queries] == ["hot", "hottest", "damp", "near", "pairs", "above"]
    assert {q.name for q in mix.joins} == {"near", "pairs", "above"}
    data = mix.to_dict()
    assert [tree["stream"] for tree in data["trees"]] == ["temperature", "humidity", JOINED]
    assert data["costs"]["comparisons/s"]["cost"] == mix.costs["comparisons/s"].cost
    assert len(data["chains"]) == 2
    picture = mix.to_svg()
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    for words in ("tree 2 of joined", "chain 1: 1 join of humidity and temperature", "slices of humidity"):
        assert words in picture
    assert "chain" not in mix.to_svg(0)
    assert "<svg" in mix._repr_html_()
    assert weft.plan(JOINS[:1])._repr_html_().startswith("<p>1 join of humidity and temperature on (")
    many = [join.renamed(f"j{n}") for n, join in enumerate(JOINS[:1] * 30)]
    assert "6 not drawn" in weft.plan(many).to_svg()


def test_trees_of_several_streams_are_spread_over_the_nodes() -> None:
    plan = weft.plan(QUERIES, nodes=3)
    assert sorted(tree.node for tree in plan.trees) == [0, 1, 2]
    assert [tree for part in plan.parts for tree in part.trees] == list(plan.trees)
    assert sum(plan.node_costs) == pytest.approx(plan.cost)
    read = weft.plan(QUERIES, nodes=3, model="per-node")
    assert sum(read.node_costs) == pytest.approx(read.cost)


def test_a_query_of_one_of_several_streams_is_explained() -> None:
    mix = weft.plan(QUERIES, rate=10.0)
    alone = weft.plan(WINDOWS[::2], rate=10.0)
    why, before = explain(mix, "hottest"), explain(alone, "hottest")
    assert (why.tree, [place.tree for place in why.elsewhere]) == (0, [None])
    assert why.elsewhere[0].cost - mix.cost == pytest.approx(before.elsewhere[0].cost - alone.cost)
    assert explain(mix, "pairs").tree == 2
    with pytest.raises(QueryError, match="query 'near': it is a join"):
        explain(mix, "near")
    with pytest.raises(QueryError, match="no query is called 'far'; there are hot, hottest, damp, near"):
        explain(mix, "far")


def test_plans_of_stages_become_one() -> None:
    planner, chains = LivePlanner("no-share"), plan_joins(JOINS)
    plans = {s: planner([q for q in WINDOWS if q.source == s]) for s in ("temperature", "humidity", "wind")}
    plan = merged(plans, chains)
    assert [tree.stream for tree in plan.trees] == ["temperature", "temperature", "humidity"]
    assert (plan.strategy, len(plan.chains), len(plan.parts)) == ("no-share", 2, 2)
    assert plan.cost == sum(p.cost for p in plans.values())
    only = merged({"": plans["humidity"]})
    assert only == plans["humidity"]
    assert str(merged({})) == "no query, by share-all"
    assert merged({"wind": plans["wind"]}).strategy == "no-share"


ROWS = pa.table({"ts": [datetime.datetime(2024, 1, 1)], "v": [1.0]})


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda: weft.plan([]), "there is no query to plan"),
        (lambda: weft.plan(QUERIES, chain="best"), "mem-opt, cpu-opt or a number of rows, not 'best'"),
        (lambda: weft.plan(QUERIES, streams=["humidity"]), "there is no stream 'temperature'"),
        (lambda: weft.plan([WINDOWS[0], JOINS[0].renamed("hot")]), "two queries have this name"),
        (lambda: weft.run(weft.plan(QUERIES), ROWS, time="ts"), "a join needs its streams by name"),
        (
            lambda: weft.run(weft.plan(WINDOWS, streams=["temperature", "humidity"]), ROWS, time="ts"),
            "the plan is of several streams: temperature, humidity",
        ),
        (lambda: problem_of(weft.plan(QUERIES)), "it joins streams"),
    ],
)
def test_plans_that_cannot_be_are_refused(work: Any, message: str) -> None:
    with pytest.raises((QueryError, JobError), match=message):
        work()


def test_joins_are_planned_from_builders_and_sliced_as_asked() -> None:
    join = weft.join("near").stream("a", "1 min").stream("b", "1 h").where("a.x = b.x").select(x="a.x")
    assert weft.plan([join]).joins == (join.build(),)
    wide = [join, replace(join, name="wide").build()]
    assert weft.plan(wide, chain=10_000_000).chains[0].shape == "at most 1e+07 rows"
    assert weft.plan(wide, chain="cpu-opt").chains[0].shape == "cpu-opt"
