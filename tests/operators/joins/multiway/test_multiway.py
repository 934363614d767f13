"""Joins of three and more streams against every tuple: conditions, orders, windows, disorder, changes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from support.join_cases import SCHEMA, SECOND, Life, admitted, covers, watermarks
from support.join_oracle import as_tuples, assert_equal, collect, oracle, ordered
from support.join_runs import chains_of, join_run
from support.multiway_cases import CONDITIONS, join, joins, steps
from support.seeds import seeded_numpy, seeded_random
from weft.model.join import JoinQuery
from weft.operators.joins.chain import Chain
from weft.operators.joins.clock import OrderedRows
from weft.operators.joins.multiway import join as multiway
from weft.operators.joins.multiway import probe
from weft.operators.joins.multiway.bitmaps import Bitmaps, pack, unpack
from weft.operators.joins.multiway.join import MultiwayJoin
from weft.operators.joins.program import compile_joins
from weft.planning.joins.levels import Levels
from weft.planning.joins.member import member
from weft.planning.joins.orders import LevelWork, choose_orders, order_cost

EMPTY = SCHEMA.empty_table()
ORDERS = list(itertools.product([(1, 2), (2, 1)], [(0, 2), (2, 0)], [(0, 1), (1, 0)]))


@pytest.mark.slow
@given(data=st.data())
def test_any_join_equals_all_tuples(data: st.DataObject) -> None:
    condition = data.draw(st.sampled_from(CONDITIONS))
    queries, batches = data.draw(joins(condition)), data.draw(steps())
    lateness = data.draw(st.sampled_from([0, 1, 4, 20]))
    run = join_run(queries, f"{lateness} s")
    run.step(dict.fromkeys("abc", EMPTY))
    (state,) = chains_of(run)
    assert isinstance(state, MultiwayJoin)
    results: dict[str, list[Any]] = {q.name: [] for q in queries}
    for step in batches:
        if data.draw(st.booleans()):
            chains_of(run)[0].orders = data.draw(st.sampled_from(ORDERS))
        collect(results, run.step(step))
    collect(results, run.close())
    kept = {name: pa.concat_tables(admitted([s[name] for s in batches], lateness * SECOND)) for name in "abc"}
    for query in queries:
        assert_equal(results[query.name], oracle(query, kept))
    assert run.state_rows == 0


@pytest.mark.slow
@given(data=st.data())
def test_joins_come_and_go(data: st.DataObject) -> None:
    condition = data.draw(st.sampled_from(CONDITIONS[:8]))
    queries, batches = data.draw(joins(condition, most=3)), data.draw(steps())
    lateness = data.draw(st.sampled_from([0, 3])) * SECOND
    run = join_run(queries, f"{lateness} us")
    lives = {q.name: Life(q, 0) for q in queries}
    results: dict[str, list[Any]] = {q.name: [] for q in queries}
    marks = [watermarks([s[name] for s in batches], lateness) for name in "abc"]
    for number, step in enumerate(batches):
        before = [m[number - 1] for m in marks] if number else [None]
        released = None if None in before else min(before)
        # Changes are made with the step, over what runs until then.
        running = [lives[query.name] for query in run.queries()]
        for action in data.draw(st.lists(st.sampled_from(["add", "drop"]), max_size=2)):
            names = [name for name, life in lives.items() if not life.dropped]
            if action == "add":
                (query,) = data.draw(joins(condition, f"added{len(lives)}_", most=1))
                cover = next((life for life in running if covers(life.query, query)), None)
                started = number > 0
                since = (cover.since if cover else number) if started else 0
                lives[query.name] = Life(query, since, released if cover and started else None)
                run.add(query)
            elif len(names) > 1:
                name = data.draw(st.sampled_from(names))
                run.drop(name)
                lives[name].dropped, lives[name].last = True, released
        collect(results, run.step(step))
    collect(results, run.close())
    rows = [admitted([s[name] for s in batches], lateness) for name in "abc"]
    for name, life in lives.items():
        kept = {side: pa.concat_tables([EMPTY, *rows[n][life.since :]]) for n, side in enumerate("abc")}
        wanted = [r for r in oracle(life.query, kept) if life.first is None or r[0] >= life.first]
        if life.dropped:
            wanted = [r for r in wanted if life.last is not None and r[0] < life.last]
        assert_equal(results.get(name, []), wanted)


def seconds(*times: float) -> pa.Array:
    return pa.array([int(t * SECOND) for t in times], pa.timestamp("us"))


def numbered(rows: int, seed: int, keys: int = 3, span: float = 20) -> pa.Table:
    chance = seeded_random(seed)
    times = sorted(chance.uniform(0, span) for _ in range(rows))
    return pa.table(
        {
            "ts": seconds(*times),
            "k": [chance.randrange(keys) for _ in range(rows)],
            "x": [chance.random() for _ in range(rows)],
        }
    )


def test_nine_streams() -> None:
    names = "abcdefghi"
    streams = {
        name: numbered(3, seed, span=2).set_column(1, "k", pa.array([0, 1, 0]))
        for seed, name in enumerate(names)
    }
    equal = " AND ".join(f"{one}.k = {other}.k" for one, other in itertools.pairwise(names))
    sides = ", ".join(f"{name} [RANGE '{2 + n % 3} s']" for n, name in enumerate(names))
    queries = weft.sql(f"SELECT a.x, e.x AS e, i.x AS i FROM {sides} WHERE {equal} AND a.x + i.x > c.x")
    assert isinstance(queries[0], JoinQuery)
    wanted = oracle(queries[0], streams)
    assert len(wanted) > 20
    assert ordered(as_tuples(weft.run(queries, streams, time="ts")["q1"])) == ordered(wanted)


def test_a_stream_with_itself_twice() -> None:
    queries = weft.sql("""SELECT p.x, q.x AS y, r.x AS z
                          FROM a p [RANGE '3 s'], a q [RANGE '2 s'], a r [RANGE '1 s']
                          WHERE p.k = q.k AND p.x < q.x AND q.x < r.x""")
    assert isinstance(queries[0], JoinQuery)
    table = numbered(40, 1)
    wanted = oracle(queries[0], {"a": table})
    assert wanted
    assert ordered(as_tuples(weft.run(queries, {"a": table}, time="ts")["q1"])) == ordered(wanted)


def test_blocks_smaller_than_a_rows_partners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "CANDIDATES_PER_BLOCK", 7)
    streams = {name: numbered(25, seed) for seed, name in enumerate("abc")}
    queries = weft.sql("""SELECT a.x, b.x AS y, c.x AS z
                          FROM a [RANGE '9 s'], b [RANGE '5 s'], c [RANGE '7 s']
                          WHERE a.k = b.k AND a.x < c.x""")
    assert isinstance(queries[0], JoinQuery)
    found = weft.run(queries, streams, time="ts")["q1"]
    assert ordered(as_tuples(found)) == ordered(oracle(queries[0], streams))


def test_two_streams_as_the_chain_has_them() -> None:
    streams = {name: numbered(60, seed) for seed, name in enumerate("ab")}
    where = "WHERE abs(a.x - b.x) < 0.2"
    queries = weft.sql(f"""SELECT a.x, b.x AS y FROM a [RANGE '3 s'], b [RANGE '1 s'] {where};
                           SELECT a.x FROM a [RANGE '1 s'], b [RANGE '5 s'] {where} AND a.k = 1""")
    members = [member(q) for q in queries if isinstance(q, JoinQuery)]
    schemas = {name: table.schema for name, table in streams.items()}
    program = compile_joins(members, schemas, dict.fromkeys("ab", "ts"))
    batches = [
        OrderedRows(t.column("ts").cast(pa.int64()).to_numpy(), t.combine_chunks().to_batches()[0])
        for t in streams.values()
    ]
    found, wanted = (
        joined.join([joined.rows(side, rows) for side, rows in enumerate(batches)], [15 * SECOND] * 2)
        for joined in (MultiwayJoin(program), Chain(program))
    )
    assert wanted
    assert {n: ordered(as_tuples(t)) for n, t in found.items()} == {
        n: ordered(as_tuples(t)) for n, t in wanted.items()
    }


def test_the_bitmaps_of_chapter_20() -> None:
    """Orders by range: q2 q3 q1 on A, q1 q2 q3 on B, q3 q1 q2 on C.

    A new row of A that joins slice 2 of B and slice 3 of C has bitmaps 111, 110, 010: it is of q2 alone.
    """
    bitmaps = Bitmaps(np.array([[3, 1, 2], [1, 2, 3], [2, 3, 1]]))
    bits = [format(int(bitmaps.of(side, age)[0]), "03b") for side, age in ((0, 0), (1, 1), (2, 2))]
    assert bits == ["111", "110", "010"]
    assert [[format(int(bitmaps.of(side, age)[0]), "03b") for age in range(4)] for side in range(3)] == [
        ["111", "101", "001", "000"],
        ["111", "110", "100", "000"],
        ["111", "011", "010", "000"],
    ]
    text = "SELECT a.x FROM a [RANGE '{} s'], b [RANGE '{} s'], c [RANGE '{} s']"
    queries = weft.sql(";".join(text.format(*r) for r in ((3, 1, 2), (1, 2, 3), (2, 3, 1))))
    streams = {name: pa.table({"ts": seconds(t), "x": [1]}) for name, t in (("a", 3), ("b", 2), ("c", 1))}
    found = weft.run(queries, streams, time="ts")
    assert {name: table.num_rows for name, table in found.items()} == {"q1": 0, "q2": 1, "q3": 0}


def test_many_queries_take_several_words() -> None:
    text = "SELECT a.x FROM a [RANGE '{} s'], b [RANGE '{} s'], c [RANGE '3 s'] WHERE a.k = b.k AND b.k = c.k"
    queries = weft.sql(";".join(text.format(1 + n % 13, 1 + n % 7) for n in range(130)))
    streams = {name: numbered(20, seed) for seed, name in enumerate("abc")}
    found = weft.run(queries, streams, time="ts")
    for query in (queries[0], queries[63], queries[64], queries[129]):
        assert isinstance(query, JoinQuery)
        assert ordered(as_tuples(found[query.name])) == ordered(oracle(query, streams))
    bits = seeded_numpy(0).random((5, 130)) < 0.5
    assert (unpack(pack(bits), 130) == bits).all()


def test_nothing_is_probed_that_serves_no_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """Section 19.2: what a new row of A makes with B's second slice is of q2, whose range on C is short."""
    tried: list[int] = []
    expand = probe.candidates

    def counting(*args: Any) -> Any:
        for block in expand(*args):
            tried.append(block.rows.size)
            yield block

    monkeypatch.setattr(multiway, "candidates", counting)
    queries = weft.sql("""SELECT a.x FROM a [RANGE '9 s'], b [RANGE '1 s'], c [RANGE '9 s'];
                          SELECT a.x FROM a [RANGE '9 s'], b [RANGE '9 s'], c [RANGE '1 s']""")
    first = {
        "a": pa.table({"ts": seconds(), "x": pa.array([], pa.int64())}),
        "b": pa.table({"ts": seconds(3), "x": [0]}),
        "c": pa.table({"ts": seconds(2, 4), "x": [0, 0]}),
    }
    run = join_run(queries, streams=first)
    run.step(first)
    (state,) = chains_of(run)
    assert isinstance(state, MultiwayJoin)
    state.orders = ((1, 2), *state.orders[1:])
    tried.clear()
    found = run.step({"a": pa.table({"ts": seconds(5), "x": [0]})}) | run.close()
    assert tried == [1]  # the row of B; neither row of C is as young as one second
    assert found == {}


def test_rows_live_as_long_as_a_query_that_selects_them() -> None:
    rows = 400
    table = pa.table(
        {
            "ts": pa.array([n * SECOND // 4 for n in range(rows)], pa.timestamp("us")),
            "x": [n % 4 for n in range(rows)],
        }
    )
    where = "WHERE a.x = b.x AND b.x = c.x AND c.x = a.x + 1"
    queries = weft.sql(f"""
        SELECT a.x FROM a [RANGE '5 s'], b [RANGE '5 s'], c [RANGE '5 s'] {where};
        SELECT a.x FROM a [RANGE '60 s'], b [RANGE '30 s'], c [RANGE '5 s'] {where} AND a.x = 3""")
    run = join_run(queries, streams=dict.fromkeys("abc", table))
    run.step(dict.fromkeys("abc", table))
    (state,) = chains_of(run)
    assert [s.sizes for s in state.sides] == [[20, 55], [20, 100], [20]]
    run.drop("q2")
    run.step({})
    (state,) = chains_of(run)
    assert [s.sizes for s in state.sides] == [[20], [20], [20]]


def test_aggregates_and_windows_beside() -> None:
    streams = {name: numbered(30, seed) for seed, name in enumerate("abc")}
    where = "FROM a [RANGE '3 s'], b [RANGE '3 s'], c [RANGE '3 s'] WHERE a.k = b.k AND b.k = c.k"
    queries = weft.sql(f"""
        SELECT a.k, b.x AS y {where};
        SELECT a.k, count(*) AS n, max(b.x) AS top {where} GROUP BY a.k, window('4 s', '2 s');
        SELECT count(*) AS n FROM b [RANGE '5 s'];
        SELECT a.k FROM a [RANGE '1 s'], b [RANGE '1 s'] WHERE a.k = b.k""")
    found = weft.run(queries, streams, time="ts")
    again = weft.sql("SELECT k, count(*) AS n, max(y) AS top FROM s GROUP BY k, window(ts, '4 s', '2 s')")
    wanted = weft.run(again, found["q1"], time="ts")["q1"]
    assert found["q1"].num_rows
    assert ordered(found["q2"].to_pylist()) == ordered(wanted.to_pylist())
    assert found["q3"].num_rows
    assert found["q4"].num_rows


def test_orders_follow_what_is_measured() -> None:
    """c is on a condition that looks alike but lets almost nothing pass: then it is probed first."""
    rows = 600
    at = seconds(*(n / 20 for n in range(rows)))
    streams = {
        "a": pa.table({"ts": at, "x": [n % 2 for n in range(rows)], "y": list(range(rows))}),
        "b": pa.table({"ts": at, "x": [n % 2 for n in range(rows)]}),
        "c": pa.table({"ts": at, "y": list(range(1000, 1000 + rows))}),
    }
    (query,) = weft.sql("""SELECT a.x FROM a [RANGE '5 s'], b [RANGE '5 s'], c [RANGE '5 s']
                           WHERE a.x = b.x AND a.y = c.y""")
    run = join_run([query], streams=streams)
    (before,) = run.plan.chains
    for at_row in range(0, rows, 50):
        run.step({name: table.slice(at_row, 50) for name, table in streams.items()})
    (state,) = chains_of(run)
    assert isinstance(state, MultiwayJoin)
    assert state.orders[0] == (2, 1)
    assert state.orders[1] == (0, 2)  # b and c have no condition in common
    assert "a           c > b" in str(run.plan.chains[0])
    assert before.rows > 0


def test_the_cheapest_order_is_found() -> None:
    query = join("q", "a.k = b.k AND b.x = c.x AND a.x < c.x", "", (1, 1, 1))
    levels = Levels([member(query)])
    chance = seeded_random(3)
    for _ in range(50):
        rows = [chance.uniform(1, 1000) for _ in range(3)]
        work = {
            (frozenset((start,)), side): LevelWork(1e6, 1e6, chance.uniform(0, 1e6))
            for start, side in itertools.permutations(range(3), 2)
        }
        best = choose_orders(levels, rows, work)
        for start in range(3):
            others = [n for n in range(3) if n != start]
            costs = {o: order_cost(o, start, levels, rows, work) for o in itertools.permutations(others)}
            assert costs[best[start]] == min(costs.values())


def test_no_product_of_streams_while_a_condition_is_there() -> None:
    """However few rows c seems to have, a meets it by way of b."""
    levels = Levels([member(join("q", "a.k = b.k AND b.x < c.x", "", (1, 1, 1)))])
    assert choose_orders(levels, [1e6, 1e6, 1.0], {})[0] == (1, 2)
    assert choose_orders(levels, [1e6, 1e6, 0.0], {})[2] == (1, 0)


def test_bad_values_are_null_or_an_error() -> None:
    queries = weft.sql("""SELECT a.x FROM a [RANGE '1 s'], b [RANGE '1 s'], c [RANGE '1 s']
                          WHERE a.x / b.x = c.x""")
    table = pa.table({"ts": seconds(0), "x": [0]})
    run = join_run(queries, streams=dict.fromkeys("abc", table))
    run.step(dict.fromkeys("abc", table))
    assert run.close() == {}
    assert run.seen.bad == 1
    with pytest.raises(weft.QueryError, match="division by zero"):
        weft.run(queries, dict.fromkeys("abc", table), time="ts", strict=True)
