"""``weft.run`` and ``LocalRun`` over several streams: joins, their aggregates, window queries beside them."""

from __future__ import annotations

import datetime
import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from support.join_cases import SCHEMA, SECOND, batches, join, steps_of
from support.join_oracle import as_tuples, oracle, ordered
from support.join_runs import chains_of, join_run
from weft.errors import JobError, NameTaken, QueryError, UnknownQuery
from weft.operators.joins.stage import JOINS
from weft.planning.joins.chain_plan import plan_chain
from weft.planning.joins.shape import mem_opt


def seconds(*times: float) -> pa.Array:
    return pa.array([int(t * SECOND) for t in times], pa.timestamp("us"))


TEMPERATURE = pa.table(
    {"ts": seconds(0, 10, 20, 30), "location": ["x", "y", "x", "y"], "value": [20.0, 31.0, 35.0, None]}
)
HUMIDITY = pa.table({"ts": seconds(5, 15, 25), "location": ["x", "y", "x"], "value": [1.0, 2.0, 3.0]})
STREAMS = {"temperature": TEMPERATURE, "humidity": HUMIDITY}
HOT = """-- name: hot
    SELECT t.location, t.value, h.value AS hv FROM temperature t [RANGE '60 min'], humidity h [RANGE '30 min']
    WHERE t.location = h.location AND t.value > 30"""


def test_the_join_of_the_documentation() -> None:
    found = weft.run(weft.sql(HOT), STREAMS, time="ts")["hot"]
    assert found.schema.names == ["ts", "location", "value", "hv"]
    assert as_tuples(found) == [
        (15 * SECOND, "y", 31.0, 2.0),
        (20 * SECOND, "x", 35.0, 1.0),
        (25 * SECOND, "x", 35.0, 3.0),
    ]


def test_window_queries_beside_joins() -> None:
    queries = weft.sql(f"{HOT}; -- name: counted\nSELECT count(*) AS n FROM humidity [RANGE '10 s']")
    found = weft.run(queries, STREAMS, time="ts")
    alone = weft.run(queries[1:], HUMIDITY, time="ts")
    assert found["counted"].equals(alone["counted"])
    assert found["hot"].num_rows == 3


@given(data=st.data())
def test_aggregates_of_a_join_are_those_of_its_results(data: st.DataObject) -> None:
    a, b = data.draw(batches(0)), data.draw(batches(100))
    where = "FROM a [RANGE '3 s'], b [RANGE '8 s'] WHERE a.k = b.k AND a.x > 0"
    plain, grouped = weft.sql(f"""
        SELECT a.x, b.n {where};
        SELECT a.x, count(*) AS c, max(b.n) AS m {where} GROUP BY a.x, window('4 s', '2 s')""")
    (again,) = weft.sql("SELECT x, count(*) AS c, max(n) AS m FROM s GROUP BY x, window(ts, '4 s', '2 s')")
    run = join_run([plain, grouped])
    results: dict[str, list[pa.Table]] = {"q1": [], "q2": []}
    answered = [run.step(step) for step in steps_of(a, b)]
    for step in [*answered, run.close()]:
        for name, table in step.items():
            results[name].append(table)
    if results["q1"]:
        wanted = weft.run([again], pa.concat_tables(results["q1"]), time="ts")["q1"]
        assert ordered(pa.concat_tables(results["q2"]).to_pylist()) == ordered(wanted.to_pylist())
    else:
        assert not results["q2"]


def test_aggregates_of_one_join_share_its_results() -> None:
    where = "FROM a [RANGE '9 s'], b [RANGE '9 s'] WHERE a.x = b.x"
    texts = [
        f"SELECT count(*) AS n {where} GROUP BY window('10 s')",
        f"SELECT a.x, max(b.n) AS m {where} GROUP BY a.x, window('20 s')",
        f"SELECT count(*) AS n {where} AND a.n > 1 GROUP BY window('10 s')",
        f"SELECT a.x {where}",
    ]
    queries = weft.sql(";".join(texts))
    rows = {"k": ["p"] * 4, "x": [1, 2, 1, 2], "y": [0.0] * 4, "n": [0, 1, 2, 3]}
    table = pa.table({"ts": seconds(1, 2, 13, 30), **rows}, schema=SCHEMA)
    run = join_run(queries)
    steps = [run.step({"a": table, "b": table})]
    assert [m.name for m in chains_of(run)[0].members] == ["q1+q2", "q3", "q4"]
    run.drop("q1")
    run.add(queries[0])  # its name is free again, and the join behind it still there
    steps += [run.step({}), run.flush() or {}]
    found = {name: [t[name] for t in steps if name in t] for name in ("q2", "q3", "q4")}
    for query in queries[1:]:
        alone = weft.run([query], {"a": table, "b": table}, time="ts")[query.name]
        assert ordered(pa.concat_tables(found[query.name]).to_pylist()) == ordered(alone.to_pylist())
    assert steps[0]["q1"].column("n").to_pylist() == [2, 1]
    run.drop("q2")
    run.step({})
    assert [m.name for m in chains_of(run)[0].members] == ["q3", "q4", "q1"]


def test_windows_over_a_join_close_with_the_watermark_not_with_the_next_result() -> None:
    (query,) = weft.sql("""SELECT count(*) AS n FROM a [RANGE '9 s'], b [RANGE '9 s'] WHERE a.x = b.x
                           GROUP BY window('10 s')""")
    step = pa.table({"ts": seconds(1, 30), "x": [1, 2]}), pa.table({"ts": seconds(2, 30), "x": [1, 3]})
    run = join_run([query], streams={"a": step[0], "b": step[1]})
    assert run.step({"a": step[0], "b": step[1]})["q1"].column("n").to_pylist() == [1]


def test_streams_that_are_not_aligned() -> None:
    """All of one stream, then all of the other: nothing is lost, and nothing comes before its time."""
    (query,) = weft.sql(HOT)
    run = join_run([query], streams=STREAMS)
    found = []
    for at in range(TEMPERATURE.num_rows):
        assert run.step({"temperature": TEMPERATURE.slice(at, 1)}) == {}
    for at in range(HUMIDITY.num_rows):
        for table in run.step({"humidity": HUMIDITY.slice(at, 1)}).values():
            found += as_tuples(table)
    assert [row[0] for row in found] == [15 * SECOND, 20 * SECOND]  # that of second 25 may have company
    found += as_tuples(run.close()["hot"])
    assert ordered(found) == ordered(oracle(query, STREAMS))


def test_late_rows_are_dropped_and_counted_per_stream() -> None:
    (query,) = weft.sql("SELECT a.n, b.n AS m FROM a [RANGE '100 s'], b [RANGE '100 s']")
    first = {"a": pa.table({"ts": seconds(20), "n": [1]}), "b": pa.table({"ts": seconds(10), "n": [2]})}
    run = join_run([query], "5 s", first)
    run.step(first)
    run.step(
        {"a": pa.table({"ts": seconds(15, 14.9), "n": [3, 4]}), "b": pa.table({"ts": seconds(5), "n": [5]})}
    )
    found = run.close()["q1"]
    assert ordered(zip(found["n"].to_pylist(), found["m"].to_pylist())) == ordered(
        [(1, 2), (3, 2), (1, 5), (3, 5)]
    )
    assert {name: stream.seen.late for name, stream in run.streams.items()} == {"a": 1, "b": 0}


def test_time_columns_and_zones() -> None:
    utc = pa.timestamp("us", "UTC")
    a = pa.table({"at": pa.array([0], utc), "x": [1]})
    b = pa.table({"when": pa.array([0], pa.timestamp("ns", "UTC")), "x": pa.array([1.0])})
    queries = weft.sql("SELECT a.x, b.when AS w FROM a [RANGE '1 s'], b [RANGE '1 s'] WHERE a.x = b.x")
    found = weft.run(queries, {"a": a, "b": b}, time={"a": "at", "b": "when"})["q1"]
    assert found.schema.field("ts").type == utc
    assert found.column("w").to_pylist() == [datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)]
    with pytest.raises(QueryError, match="time zone in one stream and none in another"):
        weft.run(
            queries, {"a": a, "b": pa.table({"when": seconds(0), "x": [1.0]})}, time={"a": "at", "b": "when"}
        )
    with pytest.raises(JobError, match="no time column for the stream 'b'"):
        weft.run(queries, {"a": a, "b": b}, time={"a": "at"})


def test_dictionaries_and_several_batches() -> None:
    coded = pa.array(["x", "y"]).dictionary_encode()
    a = pa.table({"ts": seconds(0, 1), "k": coded})
    b = pa.table({"ts": seconds(0, 1), "k": pa.array(["y", "x"])})
    queries = weft.sql("SELECT a.k FROM a [RANGE '9 s'], b [RANGE '9 s'] WHERE a.k = b.k")
    found = weft.run(queries, {"a": [a.slice(0, 1), a.slice(1)], "b": iter([b])}, time="ts")["q1"]
    assert sorted(found.column("k").to_pylist()) == ["x", "y"]


def test_no_result_has_the_right_columns() -> None:
    empty = {name: table.slice(0, 0) for name, table in STREAMS.items()}
    found = weft.run(weft.sql(HOT), empty, time="ts")["hot"]
    assert (found.num_rows, found.schema.names) == (0, ["ts", "location", "value", "hv"])
    assert found.schema.field("hv").type == pa.float64()


def test_joins_on_other_conditions_have_chains_of_their_own() -> None:
    queries = [
        join("q1", "a.x = b.x", "", (1, 2)),
        join("q2", "a.x = b.x", "a.x > 1", (3, 4)),
        join("q3", "a.x < b.x", "", (1, 2)),
    ]
    run = join_run(queries)
    run.step({"a": SCHEMA.empty_table(), "b": SCHEMA.empty_table()})
    assert [[m.name for m in chain.members] for chain in chains_of(run)] == [["q1", "q2"], ["q3"]]
    run.drop("q3")
    run.step({})
    assert len(chains_of(run)) == 1
    run.add(join("q4", "a.x > b.x", "", (1, 2)))
    run.drop("q1")
    run.drop("q2")
    run.drop("q4")
    assert run.step({"a": SCHEMA.empty_table()}) == {}  # read by nobody now, which is no mistake
    run.add(join("q2", "a.x = b.x", "a.x > 1", (3, 4)))
    run.step({"a": SCHEMA.empty_table(), "b": SCHEMA.empty_table()})
    (plan,) = run.plan.chains
    assert [list(side) for side in plan.ends] == mem_opt(plan.members)


def test_queries_come_and_go() -> None:
    run = join_run([join("short", "a.x = b.x", "", (2, 2))])
    row = pa.table({"ts": seconds(0), "k": ["p"], "x": [1], "y": [0.0], "n": [0]}, schema=SCHEMA)
    run.step({"a": row, "b": row})
    run.add(join("within", "a.x = b.x", "", (1, 1)))
    run.add(join("longer", "a.x = b.x", "", (9, 9)))
    (counted,) = weft.sql("SELECT count(*) AS n FROM a [RANGE '1 s']")
    run.add(counted)
    later = row.set_column(0, "ts", seconds(1))
    found = run.step({"a": later, "b": later})
    # A join within another has the rows and the waiting result of second 0; the longer one has not.
    assert {name: table.num_rows for name, table in found.items()} == {"short": 1, "within": 1}
    run.drop("short")
    with pytest.raises(UnknownQuery, match="query 'short': there is no such query"):
        run.drop("short")
    with pytest.raises(NameTaken, match="there is a query of this name already"):
        run.add(join("within", "a.x = b.x", "", (1, 1)))
    left = run.step({}) | run.close()
    assert {name: table.num_rows for name, table in left.items()} == {"within": 1, "longer": 1, "q1": 1}


def test_a_join_added_with_columns_that_no_row_kept() -> None:
    first, second = weft.sql("""SELECT a.x FROM a [RANGE '9 s'], b [RANGE '9 s'] WHERE a.x = b.x;
                                SELECT a.x, b.k FROM a [RANGE '9 s'], b [RANGE '9 s'] WHERE a.x = b.x""")
    row = pa.table({"ts": seconds(0), "k": ["p"], "x": [1], "y": [0.0], "n": [0]}, schema=SCHEMA)
    run = join_run([first])
    run.step({"a": row, "b": row})
    run.add(second)
    later = row.set_column(0, "ts", seconds(1))
    run.step({"a": later, "b": later})
    found = run.close()
    assert found["q2"].column("k").to_pylist() == ["p"]


def test_rates_are_measured() -> None:
    rows = 100
    a = pa.table({"ts": seconds(*(n / 10 for n in range(rows))), "x": [n % 2 for n in range(rows)]})
    queries = weft.sql("""SELECT a.x FROM a [RANGE '1 s'], b [RANGE '1 s'] WHERE a.x = b.x AND a.x = 1;
                          SELECT a.x FROM a [RANGE '2 s'], b [RANGE '2 s'] WHERE a.x = b.x AND a.x = 1""")
    run = join_run(queries, streams={"a": a, "b": a}, chain="cpu-opt")
    for at in range(0, rows, 10):
        run.step({"a": a.slice(at, 10), "b": a.slice(at, 10)})
    (rates,) = run.running._tuners[JOINS].rates().values()
    plan = plan_chain(chains_of(run)[0].members, rates, "cpu-opt")
    held = {(s.side, s.start // SECOND): s.rows for s in plan.slices}
    assert held[0, 0] == pytest.approx(5 if len(held) == 4 else 10, rel=0.05)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda: weft.run(weft.sql(HOT), HUMIDITY, time="ts"), "a join needs its streams by name"),
        (
            lambda: weft.run(weft.sql(HOT), {"humidity": HUMIDITY}, time="ts"),
            "there is no stream 'temperature'",
        ),
        (
            lambda: weft.run(weft.sql(HOT), STREAMS, time="at"),
            "the stream 'humidity' has no time column 'at'",
        ),
        (
            lambda: weft.run(weft.sql(HOT), STREAMS | {"humidity": []}, time="ts"),
            "the stream 'humidity': there is no batch",
        ),
        (
            lambda: join_run(weft.sql(HOT), streams=STREAMS).step({"rain": HUMIDITY}),
            "there is no stream 'rain'",
        ),
        (
            lambda: weft.run(weft.sql(HOT.replace("t.value >", "t.valu >")), STREAMS, time="ts"),
            "did you mean 'value'",
        ),
        (
            lambda: weft.run(weft.sql(HOT.replace("t.value,", "t.valu,")), STREAMS, time="ts"),
            "unknown column 'valu'",
        ),
        (lambda: weft.run(weft.sql(HOT.replace("> 30", "> 'x'")), STREAMS, time="ts"), "query 'hot'"),
        (lambda: weft.run(weft.plan(weft.sql(HOT)), HUMIDITY, time="ts"), "a join needs its streams by name"),
        (
            lambda: weft.run(
                weft.sql("SELECT a.x FROM " + ", ".join(f"{s} [RANGE '1 s']" for s in "abcdefghij")),
                dict.fromkeys("abcdefghij", SCHEMA.empty_table()),
                time="ts",
            ),
            "this is a join of 10 streams, and the most is 9",
        ),
    ],
)
def test_what_is_wrong_is_said(work, message) -> None:
    with pytest.raises((JobError, QueryError)) as refused:
        work()
    assert message in str(refused.value)


def test_a_batch_of_another_type() -> None:
    run = join_run(weft.sql(HOT), streams=STREAMS)
    run.step(STREAMS)
    with pytest.raises(JobError, match="column 'value' of 'humidity' is int64"):
        run.step({"humidity": HUMIDITY.set_column(2, "value", pa.array([1, 2, 3]))})


def test_bad_values_are_null_or_an_error() -> None:
    queries = weft.sql("SELECT a.x / b.x AS q FROM a [RANGE '1 s'], b [RANGE '1 s'] WHERE a.x >= b.x")
    table = pa.table({"ts": seconds(0), "x": [0]})
    found = weft.run(queries, {"a": table, "b": table}, time="ts")["q1"]
    assert found.column("q").to_pylist() == [None]
    run = join_run(queries, streams={"a": table, "b": table})
    run.step({"a": table, "b": table})
    run.close()
    assert run.seen.bad == 1
    with pytest.raises(QueryError, match="division by zero"):
        weft.run(queries, {"a": table, "b": table}, time="ts", strict=True)


@pytest.mark.parametrize("streams", [2, 3])
def test_bands_over_integers_beyond_2_to_the_53_are_exact(streams: int) -> None:
    near = [2**62 + n for n in range(5)]
    table = pa.table({"ts": [datetime.datetime(2024, 1, 1, 0, 0, n) for n in range(5)], "x": near})
    names = "abc"[:streams]
    spans = ", ".join(f"{name} [RANGE '1 min']" for name in names)
    bands = " AND ".join(f"abs(a.x - {name}.x) < 2" for name in names[1:])
    text = f"SELECT {', '.join(f'{name}.x AS {name}x' for name in names)} FROM {spans} WHERE {bands}"
    found = weft.run(weft.sql(text), dict.fromkeys(names, table), time="ts")["q1"]
    got = sorted(tuple(row[f"{name}x"] for name in names) for row in found.to_pylist())
    wanted = itertools.product(near, repeat=streams)
    assert got == sorted(row for row in wanted if all(abs(row[0] - other) < 2 for other in row[1:]))
