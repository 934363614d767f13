"""Joins of three and more streams on Spark: the answers of this process, rows stored once, exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import weft
from support.join_oracle import as_tuples, oracle, ordered
from support.joined_files import joins, table, write
from weft.io.files import Files
from weft.model.join import JoinQuery
from weft.sinks import MemorySink
from weft.spark import Run

STREAMS = {"a": table(70, 1), "b": table(60, 2), "c": table(65, 3)}
RING = """
  -- name: near
  SELECT a.n, b.n AS m, c.n AS o FROM a [RANGE '6 s'], b [RANGE '4 s'], c [RANGE '9 s']
  WHERE a.k = b.k AND abs(b.x - c.x) < 2;
  -- name: far
  SELECT a.n, c.n AS o, a.x + c.x AS s FROM a [RANGE '3 s'], b [RANGE '9 s'], c [RANGE '5 s']
  WHERE a.k = b.k AND abs(b.x - c.x) < 2 AND a.x > 4;
  -- name: pair
  SELECT a.n, b.n AS m FROM a [RANGE '8 s'], b [RANGE '2 s'] WHERE a.k = b.k AND a.x < 3
"""


def start(
    spark: SparkSession, folder: Path, queries: list[JoinQuery], sink: MemorySink, **options: Any
) -> Run:
    run = weft.stream(
        {name: Files(folder / name, max_files_per_batch=1) for name in STREAMS},
        queries,
        "ts",
        lateness="3 s",
        checkpoint=folder / "checkpoint",
        trigger="available now",
        spark=spark,
        sink=sink,
        **options,
    )
    assert isinstance(run, Run)
    return run


def check(sink: MemorySink, queries: list[JoinQuery]) -> None:
    for query in queries:
        expected = oracle(query, STREAMS)
        assert expected, "a test of nothing"
        assert ordered(as_tuples(sink.tables[query.name])) == ordered(expected), query.name


def test_three_streams_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    """Rows are stored on the node of their time, once, and stay there; a restart finds them."""
    queries, sink = joins(RING), MemorySink()
    stored: dict[tuple[str, int], str] = {}
    for part in range(2):
        for name, rows in STREAMS.items():
            some = rows.slice(0, 35) if part == 0 else rows.slice(35)
            write(some, tmp_path / name, [] if part else [15 if name == "a" else 9])
        run = start(spark, tmp_path, queries, sink, nodes=3, close_at_end=part == 1)
        run.await_done()
        if part == 0:
            assert sum(p.results for p in run.progress) > 0, "results do not wait for the end"
            for file in (tmp_path / "checkpoint" / "slices").glob("*.parquet"):
                _, node, _, part, _ = file.name.split("-", 4)
                for row in pq.read_table(file).to_pylist():
                    if part in ("0.0", "0.1", "0.2"):
                        key = (part, row["n"] if "n" in row else row["_time"])
                        assert key not in stored, "stored twice"
                        stored[key] = node
            assert len(set(stored.values())) == 3, "all nodes have some"
    check(sink, queries)
    chain, _ = run.plan.chains
    assert sorted(chain.to_dict()["orders"]) == ["a", "b", "c"]
    for step in sink.steps.values():
        for found in step.values():
            times = found.column("ts").cast(pa.int64()).to_pylist()
            assert times == sorted(times)


def test_aggregates_as_in_this_process(spark: SparkSession, tmp_path: Path) -> None:
    for name, rows in STREAMS.items():
        write(rows, tmp_path / name, [])
    first = """
      -- name: rows
      SELECT a.k, c.x FROM a [RANGE '6 s'], b [RANGE '4 s'], c [RANGE '9 s'] WHERE a.x = b.x AND b.x < c.x;
      -- name: counted
      SELECT a.k, count(*) AS n FROM a [RANGE '6 s'], b [RANGE '4 s'], c [RANGE '9 s']
      WHERE a.x = b.x AND b.x < c.x GROUP BY a.k, window('10 s')
    """
    sink = MemorySink()
    start(spark, tmp_path, joins(first), sink, nodes=2, close_at_end=True).await_done()
    wanted = weft.run(joins(first), STREAMS, time="ts", lateness="3 s")
    for name in ("rows", "counted"):
        assert ordered(sink.tables[name].to_pylist()) == ordered(wanted[name].to_pylist())
