"""PostgreSQL as a sink, against a real server: steps taken once, rows upserted, nothing doubled or lost."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import weft
from support import servers
from weft.errors import JobError
from weft.io.sinks import postgres as module
from weft.sinks import PostgresSink

AT = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    {"symbol": pa.string(), "window_start": TIME, "window_end": TIME, "n": pa.int64(), "mean": pa.float64()}
)


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Postgres]:
    with servers.postgres() as running:
        yield running


@pytest.fixture
def rows(server: servers.Postgres, request: pytest.FixtureRequest) -> Any:
    """Reads the rows of a table, in a database of the test's own."""
    name = f"t{abs(hash(request.node.name))}"
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    address = server.address.replace("dbname=postgres", f"dbname={name}")

    def rows(text: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(address) as connection:
            return connection.execute(text).fetchall()

    rows.address = address
    return rows


def step(*found: tuple[str | None, int, int]) -> pa.Table:
    """Results of (symbol, minute, n)."""
    columns = [
        [s for s, _, _ in found],
        [AT + datetime.timedelta(minutes=m) for _, m, _ in found],
        [AT + datetime.timedelta(minutes=m + 1) for _, m, _ in found],
        [n for _, _, n in found],
        [n / 2 for _, _, n in found],
    ]
    return pa.table(columns, schema=SCHEMA)


def opened(address: str, stream: str = "s") -> PostgresSink:
    sink = PostgresSink(address)
    sink.open({"busy": SCHEMA}, stream)
    return sink


def test_a_step_replaces_what_it_gave_and_leaves_the_others(rows: Any) -> None:
    first = opened(rows.address)
    first.deliver({"busy": step(("A", 0, 1), (None, 0, 2))}, 1)
    first.deliver({"busy": step(("A", 1, 3), ("B", 1, 4))}, 2)
    again = opened(rows.address)
    again.deliver({"busy": step(("A", 1, 5))}, 2)
    again.deliver({}, 3)
    found = rows("SELECT symbol, n, mean, weft_step FROM busy ORDER BY weft_step, symbol")
    assert found == [("A", 1, 0.5, 1), (None, 2, 1.0, 1), ("A", 5, 2.5, 2)]
    opened(rows.address).deliver({}, 2)
    assert rows("SELECT count(*) FROM busy") == [(2,)]


def test_a_driver_that_slept_overwrites_nothing(rows: Any) -> None:
    slow, quick = opened(rows.address), opened(rows.address)
    slow.deliver({"busy": step(("A", 0, 1), ("B", 0, 1))}, 1)
    quick.deliver({"busy": step(("A", 0, 1), ("B", 0, 1))}, 1)
    quick.deliver({"busy": step(("A", 0, 2))}, 2)
    slow.deliver({"busy": step(("A", 0, 1), ("B", 0, 1))}, 1)
    opened(rows.address, "other").deliver({"busy": step(("B", 0, 9))}, 1)
    slow.deliver({"busy": step(("A", 0, 2))}, 2)
    slow.deliver({"busy": step(("A", 0, 1), ("B", 0, 1))}, 1)
    assert rows("SELECT symbol, n FROM busy ORDER BY 1") == [("A", 2), ("B", 9)]
    assert rows("SELECT stream, query, step FROM weft_delivered ORDER BY 1") == [
        ("other", "busy", 1),
        ("s", "busy", 2),
    ]


def test_two_drivers_at_once_deliver_each_step_once(rows: Any) -> None:
    schema = pa.schema({"n": pa.int64()})
    sinks = [PostgresSink(rows.address), PostgresSink(rows.address)]
    for sink in sinks:
        sink.open({"pairs": schema, "more": schema}, "s")

    def deliver_all(sink: PostgresSink) -> None:
        for seq in range(1, 41):
            numbers = pa.table({"n": [seq, seq]})
            sink.deliver({"pairs": numbers, "more": numbers}, seq)

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(deliver_all, sinks)) == [None, None]
    for name in ("pairs", "more"):
        assert rows(f"SELECT n FROM {name} ORDER BY 1") == [(seq,) for seq in range(1, 41) for _ in "ab"]


def test_a_query_cannot_have_the_table_of_delivered_steps(rows: Any) -> None:
    with pytest.raises(JobError, match="a query cannot be called 'weft_delivered' here"):
        PostgresSink(rows.address).open({"weft_delivered": SCHEMA}, "s")


def test_a_stream_begun_anew_overwrites_group_by_group_and_window_by_window(rows: Any) -> None:
    opened(rows.address, "old").deliver({"busy": step(("A", 0, 1), (None, 0, 2), ("B", 0, 3))}, 7)
    opened(rows.address, "new").deliver({"busy": step(("A", 0, 10), (None, 0, 20))}, 1)
    found = rows("SELECT symbol, n, weft_stream FROM busy ORDER BY n")
    assert found == [("B", 3, "old"), ("A", 10, "new"), (None, 20, "new")]


def test_a_run_without_checkpoint_begins_anew(rows: Any) -> None:
    for n in (1, 2):
        sink = opened(rows.address, "run")
        sink.deliver({"busy": step((f"only in {n}", 0, n))}, 1)
        sink.close()
    assert rows("SELECT symbol FROM busy") == [("only in 2",)]


def test_a_step_is_whole_or_not_at_all(rows: Any) -> None:
    sink = opened(rows.address)
    sink.deliver({"busy": step(("A", 0, 1))}, 1)
    with psycopg.connect(rows.address, autocommit=True) as connection:
        connection.execute("ALTER TABLE busy ADD CHECK (n < 100)")
    with pytest.raises(JobError, match=r"PostgreSQL cannot take the results: .*violates check constraint"):
        sink.deliver({"busy": step(("B", 1, 2), ("C", 1, 100))}, 2)
    sink.deliver({"busy": step(("B", 1, 2))}, 2)
    assert rows("SELECT symbol FROM busy ORDER BY 1") == [("A",), ("B",)]


def test_windows_in_rows_and_joins_are_appended(rows: Any) -> None:
    batch = pa.table({"ts": pa.array([AT] * 4, TIME), "n": [1, 2, 3, 4]})
    queries = weft.sql("-- name: counted\nSELECT sum(n) AS total FROM s [ROWS 2 SLIDE 2]")
    program = weft.operators.windows.compile.compile_plan(weft.plan(queries), batch.schema, "ts")
    sink = PostgresSink(rows.address, schema="other", prefix="weft ")
    pairs = pa.table({"left": [1, 1], "right": ["x", "x"]})
    sink.open({"counted": program.result_schema("counted"), "pairs": pairs.schema}, "s")
    for _ in range(2):
        sink.deliver({**weft.run(queries, batch, time="ts"), "pairs": pairs}, 1)
    assert rows('SELECT total FROM other."weft counted" ORDER BY 1') == [(3,), (7,)]
    assert rows('SELECT "left", "right" FROM other."weft pairs"') == [(1, "x"), (1, "x")]


def test_every_type_of_result_has_a_column(rows: Any) -> None:
    day = datetime.date(2024, 1, 2)
    table = pa.table(
        {
            'odd "name"': pa.array(["a\0b", None]),
            "window_end": pa.array([AT.replace(tzinfo=None)] * 2, pa.timestamp("us")),
            "flag": [True, None],
            "small": pa.array([1, None], pa.int8()),
            "huge": pa.array([2**64 - 1, None], pa.uint64()),
            "exact": pa.array([decimal.Decimal("1.50"), None]),
            "real": pa.array([0.5, None], pa.float32()),
            "odd": [float("nan"), float("inf")],
            "day": pa.array([day, None]),
            "raw": [b"\0\xff", None],
            "list": pa.array([[1.5, None], None]),
            "word": pa.array(["x", "y"]).dictionary_encode(),
        }
    )
    sink = PostgresSink(rows.address)
    sink.open({"types": table.schema}, "s")
    sink.check({"types": table.schema})
    sink.deliver({"types": table}, 1)
    first, second = rows("SELECT * FROM types ORDER BY flag NULLS LAST")
    at = AT.replace(tzinfo=None)
    odd, *rest = first[7], *first[:7], *first[8:]
    assert odd != odd
    assert rest[:7] == ["ab", at, True, 1, 2**64 - 1, decimal.Decimal("1.50"), 0.5]
    assert rest[7:] == [day, b"\0\xff", [1.5, None], "x", "s", 1]
    assert second[:4] == (None, at, None, None)


def test_other_columns_are_refused(rows: Any) -> None:
    sink = opened(rows.address)
    other = {"busy": SCHEMA.set(3, pa.field("n", pa.string()))}
    with pytest.raises(JobError, match="query 'busy' so far have other columns"):
        sink.check(other)
    with pytest.raises(JobError, match="query 'busy' so far have other columns"):
        sink.open(other, "s")


@pytest.mark.parametrize("column", ["weft_step", "weft_stream", "ctid", "n" * 64])
def test_columns_that_a_table_cannot_have_are_refused_by_name(rows: Any, column: str) -> None:
    schema = SCHEMA.set(3, pa.field(column, pa.int64()))
    for refuse in (PostgresSink(rows.address).check, lambda s: PostgresSink(rows.address).open(s, "s")):
        with pytest.raises(JobError, match=f"query 'busy' has a column '{column}', .*; give it another name"):
            refuse({"busy": schema})


def test_long_names_do_not_meet(rows: Any) -> None:
    names = [f"{'very ' * 20}{n}" for n in (1, 2)]
    sink = PostgresSink(rows.address)
    sink.open(dict.fromkeys(names, SCHEMA), "s")
    sink.deliver({names[0]: step(("A", 0, 1)), names[1]: step(("A", 0, 2))}, 1)
    assert rows("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'very%'") == [(2,)]


def test_a_server_that_comes_back_gets_the_step(
    server: servers.Postgres, rows: Any, monkeypatch: Any
) -> None:
    sink = opened(rows.address)
    sink.deliver({"busy": step(("A", 0, 1))}, 1)
    server.stop()
    pauses = []

    def back(seconds: float) -> None:
        pauses.append(seconds)
        server.start()

    monkeypatch.setattr(module.time, "sleep", back)
    sink.deliver({"busy": step(("B", 0, 2))}, 2)
    assert pauses[:1] == [1.0]  # other threads may sleep too
    assert rows("SELECT symbol FROM busy ORDER BY 1") == [("A",), ("B",)]


def test_a_server_that_is_away(monkeypatch: Any) -> None:
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)
    with pytest.raises(JobError, match=r"PostgreSQL cannot take the results: .*nowhere"):
        opened("host=/nowhere dbname=x")
    with pytest.raises(JobError, match="PostgreSQL cannot take the results: "):
        opened("what is this")
    with pytest.raises(JobError, match=r"PostgreSQL cannot take the results: .*nowhere"):
        PostgresSink("host=/nowhere dbname=x").check({"busy": SCHEMA})


def test_times_beyond_python_s_years_are_kept(rows: Any) -> None:
    """9999-12-31 ends in the year 10000, which Python does not know and PostgreSQL does."""
    ends = pa.array([253_402_300_800_000_000, -62_167_219_200_000_000, -(2**62), 0], TIME)
    schema = pa.schema({"window_start": TIME, "window_end": TIME, "day": pa.date32(), "n": pa.int64()})
    days = pa.array([2_932_897, -719_528, None, 0], pa.int32()).cast(pa.date32())
    sink = PostgresSink(rows.address)
    sink.open({"far": schema}, "s")
    for _ in range(2):
        sink.deliver({"far": pa.table([ends, ends, days, [1, 2, 3, 4]], schema=schema)}, 1)
    found = rows(
        "SELECT n, to_char(window_end AT TIME ZONE 'UTC', 'YYYY-MM-DD BC HH24:MI:SS'), "
        "window_end = '-infinity', day::text FROM far ORDER BY n"
    )
    assert [(n, day) for n, _, _, day in found] == [
        (1, "10000-01-01"), (2, "0001-01-01 BC"), (3, None), (4, "1970-01-01")
    ]  # fmt: skip
    assert found[0][1] == "10000-01-01 AD 00:00:00"
    assert found[1][1] == "0001-01-01 BC 00:00:00"
    assert [early for _, _, early, _ in found] == [False, False, True, False]
