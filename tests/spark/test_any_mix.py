"""Any mix of queries and sources on Spark, by one driver: as ``weft.run`` answers the same rows."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import weft
from support.brokers import Broker
from support.join_oracle import ordered
from support.joined_files import SECOND, table, write
from weft.errors import JobError
from weft.io.files import Files
from weft.runner.program import windows_name
from weft.runner.progress import Progress
from weft.sinks import MemorySink
from weft.spark import Run

TABLES = {"a": table(120, 1), "b": table(110, 2)}
ROWS = sum(rows.num_rows for rows in TABLES.values())

WINDOWS = """
  -- name: counted
  SELECT k, count(*) AS c, sum(x) AS s FROM a [RANGE '10 s' SLIDE '5 s'] GROUP BY k;
  -- name: most
  SELECT max(x) AS most FROM b [RANGE '8 s']
"""
JOINS = """
  -- name: near
  SELECT a.n, b.n AS m FROM a [RANGE '8 s'], b [RANGE '5 s'] WHERE a.k = b.k;
  -- name: band
  SELECT a.n, b.n AS m FROM a [RANGE '6 s'], b [RANGE '9 s'] WHERE abs(a.x - b.x) < 2;
  -- name: per_key
  SELECT a.k, count(*) AS c FROM a [RANGE '8 s'], b [RANGE '5 s'] WHERE a.k = b.k
  GROUP BY a.k, window('10 s', '5 s')
"""
MIX = f"{WINDOWS};{JOINS}"


class Ended(NamedTuple):
    """A run that has ended, and what it delivered."""

    run: Run
    sink: MemorySink


def go(spark: SparkSession, sources: Mapping[str, Any], queries: str, **options: Any) -> Ended:
    sink = MemorySink()
    defaults = {"lateness": "3 s", "trigger": "available now", "buckets": 2, "spark": spark}
    run = weft.stream(sources, queries, "ts", sink=sink, **(defaults | options))
    assert run.await_done(300)
    return Ended(run, sink)


def files(place: Path, tables: Mapping[str, pa.Table], parts: int = 3) -> dict[str, Files]:
    """The tables as files, taken one of each stream at a time."""
    for name, rows in tables.items():
        write(rows, place / name, [-(-rows.num_rows // parts)] * (parts - 1))
    return {name: Files(place / name, max_files_per_batch=1) for name in tables}


def check(delivered: Mapping[str, pa.Table], wanted: Mapping[str, pa.Table]) -> None:
    for name, rows in wanted.items():
        assert rows.num_rows, f"a test of nothing: {name}"
        assert ordered(delivered[name].to_pylist()) == ordered(rows.to_pylist()), name


def test_windows_beside_joins_read_every_row_once(spark: SparkSession, tmp_path: Path) -> None:
    run, sink = go(spark, files(tmp_path, TABLES), MIX)
    check(sink.tables, weft.run(MIX, TABLES, "ts", lateness="3 s"))
    assert sum(p.rows for p in run.progress) == ROWS
    assert set(run.progress[0].marks) == {windows_name("a"), windows_name("b"), "joins", "results"}
    assert sum(p.results for p in run.progress[:-1]) > 0, "results do not wait for the end"


def test_a_batch_of_a_mix(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(TABLES["b"])
    frames = weft.share(
        {"a": files(tmp_path, {"a": TABLES["a"]})["a"], "b": frame}, MIX, "ts", buckets=3, spark=spark
    )
    check(frames.to_arrow(), weft.run(MIX, TABLES, "ts"))


def test_joins_look_tables_up(spark: SparkSession, tmp_path: Path) -> None:
    titles = pa.table({"k": ["p", "q"], "w": [1, 5]})
    queries = """
      -- name: titled
      SELECT a.n, b.n AS m, t.w FROM a [RANGE '8 s'], b [RANGE '5 s'] LEFT JOIN titles t ON a.k = t.k
      WHERE a.k = b.k;
      -- name: weighed
      SELECT t.w, count(*) AS c FROM a [RANGE '10 s'] JOIN titles t USING (k) GROUP BY t.w
    """
    tables = {"titles": titles}
    _, sink = go(spark, files(tmp_path, TABLES), queries, tables=tables)
    check(sink.tables, weft.run(queries, TABLES, "ts", lateness="3 s", tables=tables))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    yield Broker()


def test_late_and_rejected_rows_of_joins_are_kept(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    def at(seconds: int) -> datetime.datetime:
        return datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=seconds)

    def rows(*seconds: int) -> pa.Table:
        times = pa.array(map(at, seconds), pa.timestamp("us", "UTC"))
        return pa.table({"ts": times, "k": ["p"] * len(seconds), "n": pa.array(seconds, pa.int64())})

    write(pa.concat_tables([rows(30, 40), rows(10, 50)]), tmp_path / "a", [2])
    messages = [{"ts": at(n).isoformat(), "k": "p", "n": n} for n in (31, 45, 52)]
    broker.send("rejected", [*messages, b"not a row"], partitions=1)
    sources = {
        "a": Files(tmp_path / "a", max_files_per_batch=1),
        "b": weft.Kafka(broker.servers, "rejected", schema={"ts": "timestamp", "k": "string", "n": "long"}),
    }
    queries = "-- name: j\nSELECT a.n, b.n AS m FROM a [RANGE '5 s'], b [RANGE '5 s'] WHERE a.k = b.k"
    late = MemorySink()
    run, sink = go(spark, sources, queries, late=late, checkpoint=tmp_path / "state", close_at_end=True)
    assert [(row["n"], row["m"]) for row in sink.tables["j"].to_pylist()] == [(30, 31), (50, 52)]
    assert [row["n"] for row in late.tables["late_a"].to_pylist()] == [10]
    assert sum(p.late for p in run.progress) == 1
    assert {name: rows.num_rows for name, rows in late.tables.items() if rows.num_rows} == {
        "late_a": 1,
        "rejected_b": 1,
    }
    assert sum(p.bad for p in run.progress) == 1


def test_files_of_joined_streams_are_taken_in_steps_of_a_length(spark: SparkSession, tmp_path: Path) -> None:
    files(tmp_path, TABLES, parts=4)
    sources = {name: Files(tmp_path / name) for name in TABLES}
    run, sink = go(spark, sources, MIX, target_batch="1 ms", lateness="1 hour")
    check(sink.tables, weft.run(MIX, TABLES, "ts"))
    assert len({p.batch_id for p in run.progress}) == 1, "one batch of Spark's"
    assert len([p for p in run.progress if p.kind == "batch"]) >= 4, "in several steps"
    assert sum(p.rows for p in run.progress) == ROWS


def test_every_kind_of_source_in_one_stream(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """A DataFrame, files, a topic and generated rows, each with a lateness of its own."""
    tables = {**TABLES, "c": table(90, 3)}
    write(tables["a"], tmp_path / "a", [60])
    schema = spark.createDataFrame(tables["a"].slice(0, 1)).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    frame: DataFrame = reader.parquet(str(tmp_path / "a"))
    messages = [{**row, "ts": row["ts"].isoformat()} for row in tables["c"].to_pylist()]
    broker.send("c", messages, partitions=1)
    types = {"ts": "timestamp", "k": "string", "x": "long", "n": "long"}
    generated = weft.Generated("trades", rows=4000, rate=100.0, keys=5, max_rows_per_batch=2000)
    sources = {
        "a": frame,
        **files(tmp_path, {"b": tables["b"]}, parts=2),
        "c": weft.Kafka(broker.servers, "c", schema=types, max_rows_per_batch=50),
        "g": generated,
    }
    queries = f"""{MIX};
      -- name: read
      SELECT b.n, c.n AS o FROM b [RANGE '4 s'], c [RANGE '6 s'] WHERE b.k = c.k;
      -- name: traded
      SELECT symbol, count(*) AS c, max(price) AS top FROM g [RANGE '10 s'] GROUP BY symbol;
      -- name: heard
      SELECT k, count(*) AS c FROM c [RANGE '10 s'] GROUP BY k
    """
    lateness = {"a": "3 s", "b": "4 s", "c": "5 s", "g": "0 s"}
    run, sink = go(spark, sources, queries, lateness=lateness)
    rows = {**tables, "g": pa.concat_tables([chunk.table for chunk in generated])}
    check(sink.tables, weft.run(queries, rows, "ts", lateness=lateness))
    assert sum(p.rows for p in run.progress) == sum(table.num_rows for table in rows.values())
    assert sum(p.late for p in run.progress) == 0


@pytest.mark.parametrize(
    ("first", "added", "name"),
    [(WINDOWS, JOINS, "near"), (WINDOWS, JOINS, "per_key"), (JOINS, WINDOWS, "counted")],
)
def test_a_query_is_added_to_a_stream_of_the_other_kind(
    spark: SparkSession, tmp_path: Path, first: str, added: str, name: str
) -> None:
    asked: list[Any] = []
    runs: list[Run] = []
    (query,) = [query for query in weft.sql(added) if query.name == name]

    def change(progress: Progress) -> None:
        if progress.seq == 2:
            while not runs:
                pass
            asked.append(runs[0].add(query))

    sink = MemorySink()
    runs.append(
        weft.stream(
            files(tmp_path, TABLES, parts=5),
            first,
            "ts",
            sink=sink,
            lateness="3 s",
            trigger="available now",
            buckets=2,
            spark=spark,
            on_progress=change,
        )
    )
    assert runs[0].await_done(300)
    check(sink.tables, weft.run(first, TABLES, "ts", lateness="3 s"))
    since = asked[0].result().exact_from
    whole = weft.run([query], TABLES, "ts", lateness="3 s")[name].to_pylist()
    column = "window_start" if "window_start" in whole[0] else "ts"
    exact = [row for row in whole if row[column] >= since]
    assert 0 < len(exact) < len(whole)
    found = [row for row in sink.tables[name].to_pylist() if row[column] >= since]
    assert ordered(found) == ordered(exact)
    # Before that, a join gives the pairs of the rows that it has, a window nothing.
    if column == "ts":
        texts = set(map(repr, whole))
        assert all(repr(row) in texts for row in sink.tables[name].to_pylist())
    else:
        assert len(found) == sink.tables[name].num_rows
    assert {q.name for q in runs[0].queries()} == {name, *(q.name for q in weft.sql(first))}


def test_the_lateness_of_one_stream_is_set(spark: SparkSession, tmp_path: Path) -> None:
    runs: list[Run] = []

    def change(progress: Progress) -> None:
        if progress.seq == 1:
            while not runs:
                pass
            runs[0].set_lateness("4 s", stream="a")
            with pytest.raises(JobError, match="a stream 'zz' which is not there; there are a, b"):
                runs[0].set_lateness("9 s", stream="zz")

    sources = files(tmp_path, TABLES, parts=4)
    options = {"lateness": {"a": "3 s", "b": "3 s"}, "checkpoint": tmp_path / "state", "buckets": 2}
    sink = MemorySink()
    runs.append(
        weft.stream(
            sources, MIX, "ts", sink=sink, trigger="available now", spark=spark, on_progress=change, **options
        )
    )
    assert runs[0].await_done(300)
    latest = {
        name: [
            max(rows.column("ts").cast(pa.int64()).to_pylist()[: -(-rows.num_rows // 4) * step])
            for step in (1, 2, 3, 4)
        ]
        for name, rows in TABLES.items()
    }
    waits = {
        name: [
            (top - p.marks[windows_name(name)][name]) // SECOND  # type: ignore[operator]
            for top, p in zip(latest[name], runs[0].progress)
        ]
        for name in TABLES
    }
    assert waits == {"a": [3, 4, 4, 4], "b": [3, 3, 3, 3]}
    versions = sorted((tmp_path / "state" / "registry").glob("*.json"))
    assert json.loads(versions[-1].read_text())["lateness"] == {"a": 4 * SECOND, "b": 3 * SECOND}
    again = MemorySink()
    run = weft.stream(
        sources, MIX, "ts", sink=again, trigger="available now", spark=spark, close_at_end=True, **options
    )
    assert run.await_done(300)
    both = {
        name: pa.concat_tables([tables[name] for tables in (sink.tables, again.tables) if name in tables])
        for name in sink.tables
    }
    check(both, weft.run(MIX, TABLES, "ts", lateness="3 s"))
