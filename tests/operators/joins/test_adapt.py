"""Chains that slice themselves anew by the rates they have seen, in this process and as on Spark."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from support.join_cases import SCHEMA, SECOND, join
from support.join_oracle import as_tuples, oracle, ordered
from support.join_runs import chains_of, join_run
from support.join_world import World
from weft.operators.joins.adapt import better_ends
from weft.operators.joins.state import Joins
from weft.planning.joins.member import member
from weft.planning.joins.rates import COMPARISONS, assumed

RANGES = ((1, 1), (2, 2), (3, 3), (20, 20))
QUERIES = [join(f"q{n}", "a.k = b.k", "", ranges) for n, ranges in enumerate(RANGES)]


def rows(first: int, count: int, per_second: int, keys: int) -> pa.Table:
    """Rows in order of time, of so many keys."""
    places = range(first, first + count)
    return pa.table(
        {
            "ts": pa.array([n * SECOND // per_second for n in places], pa.timestamp("us")),
            "k": [str(n % keys) for n in places],
            "x": [0] * count,
            "y": [0.0] * count,
            "n": list(places),
        },
        schema=SCHEMA,
    )


STEPS = [rows(at, 20, 1, 50) for at in range(0, 100, 20)]
STREAM = {name: pa.concat_tables(STEPS) for name in "ab"}


def test_slices_follow_the_rates_in_this_process() -> None:
    """At 1,000 rows a second and one pair in a hundred, slices per range are best; at one row, one slice."""
    run = join_run(QUERIES, chain="cpu-opt")
    found: dict[str, list[object]] = {q.name: [] for q in QUERIES}
    shapes = []
    for step in STEPS:
        for name, table in run.step({"a": step, "b": step}).items():
            found[name] += as_tuples(table)
        shapes.append([len(slices.ends) for slices in chains_of(run)[0].sides])
    for name, table in run.close().items():
        found[name] += as_tuples(table)
    assert shapes[-1] < shapes[0]
    for query in QUERIES:
        assert ordered(found[query.name]) == ordered(oracle(query, STREAM))


def joins_of(world: World) -> Joins:
    joins = world.running.program.joins
    assert joins is not None
    return joins


def test_slices_follow_the_rates_on_spark() -> None:
    with tempfile.TemporaryDirectory() as place:
        world = World(place, QUERIES, 0, 2, chain="cpu-opt")
        shapes = []
        for step in STEPS:
            world.step({"a": step, "b": step})
            shapes.append([len(side) for side in joins_of(world).ends[0]])
        # Slices are no part of a version: a run that goes on begins with those it was planned with.
        world.start()
        assert [len(side) for side in joins_of(world).ends[0]] == shapes[0]
        world.flush()
    assert shapes[-1] < shapes[0]
    for query in QUERIES:
        found = [
            row
            for step in world.sink.steps.values()
            if query.name in step
            for row in as_tuples(step[query.name])
        ]
        assert ordered(found) == ordered(oracle(query, STREAM))


@pytest.mark.parametrize("shape", ["cpu-opt", 1.0])
def test_what_is_about_as_good_stays(shape: str | float) -> None:
    members = [member(query) for query in QUERIES]
    best = better_ends(members, [[20 * SECOND]] * 2, assumed(members, 1000.0, 0.5), shape, COMPARISONS)
    assert best is not None
    assert better_ends(members, best, assumed(members, 1000.0, 0.5), shape, COMPARISONS) is None


def test_chains_are_chosen_by_the_costs_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where running a slice costs nothing, there is one per range; where it costs much, there is one."""
    text = ";".join(
        f"SELECT a.x FROM a [RANGE '{n} s'], b [RANGE '{n} s'] WHERE a.x = b.x" for n in (10, 20, 30)
    )
    file = tmp_path / "costs.json"
    monkeypatch.setenv("WEFT_COSTS", str(file))
    slices = []
    for system in (0.0, 1e9):
        costs = {"probe": 1.0, "purge": 0.0, "route": 1.0, "system": system}
        file.write_text(json.dumps({"format": 1, "joins": costs}))
        run = join_run(weft.sql(text), chain="cpu-opt")
        slices.append(len(run.plan.chains[0].ends[0]))
    assert slices == [3, 1]
