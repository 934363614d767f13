"""The batched chain against every pair: conditions, windows, selections, disorder, shapes and migrations."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from support.join_cases import (
    CONDITIONS,
    EMPTY,
    SCHEMA,
    SECOND,
    Life,
    admitted,
    batches,
    covers,
    join,
    joins,
    steps_of,
    watermarks,
)
from support.join_oracle import as_tuples, assert_equal, collect, oracle, ordered
from support.join_runs import chains_of, join_run, kept_rows
from weft.local.running import LocalRun
from weft.operators.joins import chain, match


@given(data=st.data())
def test_any_join_equals_all_pairs(data: st.DataObject) -> None:
    condition = data.draw(st.sampled_from(CONDITIONS))
    queries = data.draw(joins(condition))
    lateness = data.draw(st.sampled_from([0, 1, 4, 20]))
    a, b = data.draw(batches(0)), data.draw(batches(100))
    shape = data.draw(st.sampled_from(["mem-opt", "cpu-opt"]))
    run = join_run(queries, f"{lateness} s", chain=shape)
    results: dict[str, list[Any]] = {q.name: [] for q in queries}
    for step in steps_of(a, b):
        collect(results, run.step(step))
    collect(results, run.close())
    kept = {
        "a": pa.concat_tables(admitted(a, lateness * SECOND)),
        "b": pa.concat_tables(admitted(b, lateness * SECOND)),
    }
    for query in queries:
        assert_equal(results[query.name], oracle(query, kept))
    assert run.state_rows == 0


@given(data=st.data())
def test_chains_change_while_they_run(data: st.DataObject) -> None:
    condition = data.draw(st.sampled_from(CONDITIONS[:8]))
    queries = data.draw(joins(condition, most=3))
    lateness = data.draw(st.sampled_from([0, 3])) * SECOND
    a, b = data.draw(batches(0)), data.draw(batches(100))
    run = join_run(queries, f"{lateness} us")
    lives: dict[str, Life] = {q.name: Life(q, 0) for q in queries}
    results: dict[str, list[Any]] = {q.name: [] for q in queries}
    steps = steps_of(a, b)
    marks = [watermarks([s[side] for s in steps], lateness) for side in ("a", "b")]
    for number, step in enumerate(steps):
        released = (
            None
            if number == 0 or None in (marks[0][number - 1], marks[1][number - 1])
            else min(m[number - 1] for m in marks)
        )
        running = [lives[query.name] for query in run.queries()]
        for action in data.draw(st.lists(st.sampled_from(["add", "drop", "reshape"]), max_size=3)):
            change(data, run, condition, action, number, released, lives, running)
        collect(results, run.step(step))
    collect(results, run.close())
    rows = [admitted([s[side] for s in steps], lateness) for side in ("a", "b")]
    for name, life in lives.items():
        kept = {side: pa.concat_tables([EMPTY, *rows[n][life.since :]]) for n, side in enumerate("ab")}
        wanted = [r for r in oracle(life.query, kept) if life.first is None or r[0] >= life.first]
        if life.dropped:
            wanted = [r for r in wanted if life.last is not None and r[0] < life.last]
        assert_equal(results.get(name, []), wanted)


def change(
    data: st.DataObject,
    run: LocalRun,
    condition: str,
    action: str,
    number: int,
    released: int | None,
    lives: dict[str, Life],
    running: list[Life],
) -> None:
    names = [name for name, life in lives.items() if not life.dropped]
    if action == "add":
        (query,) = data.draw(joins(condition, f"added{len(lives)}_", most=1))
        # Changes are made with the step, over what runs until then.
        cover = next((life for life in running if covers(life.query, query)), None)
        # Before the first step no chain has begun, and every query is there from the start.
        started = number > 0
        since = (cover.since if cover else number) if started else 0
        lives[query.name] = Life(query, since, released if cover and started else None)
        run.add(query)
    elif action == "drop" and len(names) > 1:
        name = data.draw(st.sampled_from(names))
        run.drop(name)
        lives[name].dropped, lives[name].last = True, released
    elif action == "reshape":
        for chain in chains_of(run):
            ends = []
            for ranges in chain.ranges:
                inner = data.draw(st.sets(st.integers(1, ranges[-1] // SECOND), max_size=3))
                ends.append(sorted({*(i * SECOND for i in inner), ranges[-1]}))
            chain.reshape(ends)


def test_blocks_smaller_than_a_rows_partners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match, "CANDIDATES_PER_BLOCK", 7)
    monkeypatch.setattr(chain, "CANDIDATES_PER_BLOCK", 10)
    table = pa.table(
        {"ts": pa.array([n * SECOND for n in range(40)], pa.timestamp("us")), "x": [n % 2 for n in range(40)]}
    )
    queries = weft.sql("SELECT a.ts AS at, b.ts AS bt FROM a [RANGE '30 s'], b [RANGE '5 s'] WHERE a.x = b.x")
    found = weft.run(queries, {"a": table, "b": table}, time="ts")["q1"]
    assert ordered(as_tuples(found)) == ordered(oracle(queries[0], {"a": table, "b": table}))


@pytest.mark.parametrize("selection", ["", "a.x > 1"])
def test_mem_opt_keeps_what_the_longest_window_alone_keeps(selection: str) -> None:
    rows = 400
    table = pa.table(
        {
            "ts": pa.array([n * SECOND // 4 for n in range(rows)], pa.timestamp("us")),
            "k": ["p"] * rows,
            "x": [n % 4 for n in range(rows)],
            "y": [0.0] * rows,
            "n": list(range(rows)),
        },
        schema=SCHEMA,
    )
    queries = [join(f"q{w}", "a.x = b.x", selection, (w, w)) for w in (5, 10, 20, 60)]
    every, longest = join_run(queries), join_run(queries[-1:])
    for at in range(0, rows, 30):
        for run in (every, longest):
            run.step({"a": table.slice(at, 30), "b": table.slice(at, 30)})
        assert kept_rows(every) == kept_rows(longest)
    (chain,) = chains_of(every)
    assert [len(s.ends) for s in chain.sides] == [4, 4]
    assert len(chain.sides[1]) == 4 * 60  # four rows a second for sixty seconds


def test_rows_live_as_long_as_a_query_that_selects_them() -> None:
    """The short join takes every row, the long one every fourth: only these pass from slice 1 to slice 2."""
    rows = 400
    table = pa.table(
        {
            "ts": pa.array([n * SECOND // 4 for n in range(rows)], pa.timestamp("us")),
            "x": [n % 4 for n in range(rows)],
        }
    )
    queries = weft.sql("""
        -- name: short
        SELECT a.x FROM a [RANGE '5 s'], b [RANGE '5 s'] WHERE a.x = b.x;
        -- name: long
        SELECT a.x FROM a [RANGE '60 s'], b [RANGE '60 s'] WHERE a.x = b.x AND a.x = 3""")
    run = join_run(queries, streams={"a": table, "b": table})
    run.step({"a": table, "b": table})
    (chain,) = chains_of(run)
    assert [s.sizes for s in chain.sides] == [[20, 55], [20, 220]]
    chain.reshape([[60 * SECOND], [60 * SECOND]])
    assert [s.sizes for s in chain.sides] == [[75], [240]]


def test_a_stream_joins_itself() -> None:
    table = pa.table({"ts": pa.array([0, SECOND, SECOND], pa.timestamp("us")), "x": [1, 2, 2]})
    queries = weft.sql("SELECT s.x, t.x AS y FROM a s [RANGE '9 s'], a t [RANGE '1 s'] WHERE s.x <= t.x")
    found = weft.run(queries, {"a": table}, time="ts")["q1"]
    assert ordered(as_tuples(found)) == ordered(oracle(queries[0], {"a": table}))


def test_rows_of_a_slice_can_be_a_file() -> None:
    from weft.operators.joins.rows import JoinRows

    table = pa.table({"ts": pa.array([0, SECOND], pa.timestamp("us")), "k": ["p", "q"]})
    queries = weft.sql("SELECT a.k FROM a [RANGE '9 s'], b [RANGE '9 s'] WHERE a.k = b.k")
    run = join_run(queries, streams={"a": table, "b": table})
    run.step({"a": table, "b": table})
    (kept,) = chains_of(run)[0].sides[0].runs[0]
    again = JoinRows.from_batch(kept.rows.to_batch())
    assert again.table.equals(kept.rows.table)
    assert again.values.tolist() == kept.rows.values.tolist()
