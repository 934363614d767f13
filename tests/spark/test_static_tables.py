"""Static tables on Spark: row for row as Spark's own joins, broadcast anew when they change."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

import weft
from support import trades
from support.oracle import assert_same, rows_of
from support.waiting import wait_for
from weft.errors import JobError, QueryError
from weft.io.files import Files
from weft.jobs import launch
from weft.jobs.job import parse
from weft.jobs.report import Report
from weft.sinks import MemorySink

CLOSE = pa.table(
    {
        "symbol": ["A", "B", "C", None, "X"],
        "day": pa.array([1, 1, 1, 1, 1], pa.int32()),
        "cp": [50.0, 40.5, None, 1.0, 2.0],
        "sector": ["tech", "tech", "steel", "none", "none"],
    }
)
INDEX = pa.table({"sym": ["A", "C", "D"], "kind": [1, 2, 1], "r3000": [True, False, None]})
QUERIES = """
-- name: movers
SELECT close.sector, count(*) AS n, sum(price - cp) AS moved FROM trades t
JOIN close ON t.symbol = close.symbol WHERE abs(price - cp) / cp > 0.5
GROUP BY close.sector, window(t.ts, '5 minutes', '2 minutes');
-- name: members
SELECT r3000, close.sector, count(*) AS n, max(cp) AS top FROM trades
LEFT JOIN index i ON trades.symbol = i.sym AND volume % 2 + 1 = i.kind LEFT JOIN close USING (symbol)
GROUP BY r3000, close.sector, window(ts, '3 minutes');
-- name: strangers
SELECT symbol, count(*) AS n FROM trades LEFT JOIN close USING (symbol)
WHERE close.symbol IS NULL GROUP BY symbol, window(ts, '10 minutes');
-- name: everything
SELECT count(*) AS n FROM trades GROUP BY window(ts, '2 minutes')
"""


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return trades.table(1200)


def natively(spark: SparkSession, rows: pa.Table) -> dict[str, DataFrame]:
    frame = spark.createDataFrame(rows)
    close, index = (F.broadcast(spark.createDataFrame(table)) for table in (CLOSE, INDEX))
    close = close.select(F.col("symbol").alias("theirs"), "cp", "sector")
    met = frame.join(close, frame.symbol == close.theirs, "left")
    kinds = met.join(index, (met.symbol == index.sym) & (met.volume % 2 + 1 == index.kind), "left")
    movers = met.where("theirs IS NOT NULL AND abs(price - cp) / cp > 0.5")
    asked = {
        "movers": movers.groupBy(F.window("ts", "5 minutes", "2 minutes").alias("w"), "sector").agg(
            F.count("*").alias("n"), F.sum(F.col("price") - F.col("cp")).alias("moved")
        ),
        "members": kinds.groupBy(F.window("ts", "3 minutes").alias("w"), "r3000", "sector").agg(
            F.count("*").alias("n"), F.max("cp").alias("top")
        ),
        "strangers": met.where("theirs IS NULL")
        .groupBy(F.window("ts", "10 minutes").alias("w"), "symbol")
        .agg(F.count("*").alias("n")),
        "everything": frame.groupBy(F.window("ts", "2 minutes").alias("w")).agg(F.count("*").alias("n")),
    }
    bounds = [F.col(f"w.{side}").alias(f"window_{side}") for side in ("start", "end")]
    return {name: found.select("*", *bounds).drop("w") for name, found in asked.items()}


def test_joins_are_those_of_spark(spark: SparkSession, rows: pa.Table, tmp_path: Path) -> None:
    queries = weft.sql(QUERIES)
    pq.write_table(INDEX, tmp_path / "index.parquet")
    given = {"close": spark.createDataFrame(CLOSE), "index": tmp_path / "index.parquet"}
    expected = {name: rows_of(frame.toArrow()) for name, frame in natively(spark, rows).items()}
    shared = weft.share(spark.createDataFrame(rows), queries, time="ts", tables=given).to_arrow()
    trades.write(rows, tmp_path / "in", files=3)
    sink = MemorySink()
    weft.stream(
        Files(tmp_path / "in", max_files_per_batch=1),
        queries,
        time="ts",
        sink=sink,
        trigger="available now",
        close_at_end=True,
        spark=spark,
        tables=given,
    ).await_done()
    for query in queries:
        plain = weft.Query(query.name, "s", query.window, query.aggregates, query.result_keys)
        assert expected[query.name]
        assert_same(plain, shared[query.name], expected[query.name])
        assert_same(plain, sink.tables[query.name], expected[query.name])


def priced(folder: Path, cp: float) -> None:
    """One close price for A, in a file of another name than before."""
    folder.mkdir(exist_ok=True)
    fresh = folder / f"cp-{cp}.parquet"
    pq.write_table(pa.table({"symbol": ["A"], "cp": [cp]}), folder / ".writing")
    for old in folder.glob("*.parquet"):
        old.unlink()
    os.rename(folder / ".writing", fresh)


def test_a_table_that_changes_while_a_stream_runs(spark: SparkSession, tmp_path: Path) -> None:
    queries = weft.sql("SELECT sum(price - cp) AS moved FROM t [RANGE '1 min'] JOIN close USING (symbol)")
    sink = MemorySink()
    priced(tmp_path / "close", 90.0)
    (tmp_path / "in").mkdir()
    schema = {"ts": "timestamp", "symbol": "string", "price": "double"}

    def feed(minute: int, number: int) -> None:
        ts = pa.array([minute * 60 * trades.SECOND]).cast(pa.timestamp("us", "UTC"))
        batch = pa.table({"ts": ts, "symbol": ["A"], "price": [100.0]})
        trades.write(batch, tmp_path / "in", files=1, first=number)
        wait_for(lambda: len(run.progress) == number)

    with weft.stream(
        Files(tmp_path / "in", schema=schema),
        queries,
        time="ts",
        sink=sink,
        spark=spark,
        buckets=1,
        tables={"close": tmp_path / "close"},
    ) as run:
        feed(1, 1)
        priced(tmp_path / "close", 80.0)
        feed(2, 2)
        with pytest.raises(JobError, match="has no column 'cp'"):
            run.replace_table("close", pa.table({"symbol": ["A"]}))
        (tmp_path / "close" / "half.parquet").write_bytes(b"PAR1")
        feed(3, 3)
        run.replace_table("close", pa.table({"symbol": ["A"], "cp": [50.0]}))
        feed(4, 4)
        feed(5, 5)
    assert sink.tables["q1"].column("moved").to_pylist() == [10.0, 20.0, 20.0, 50.0]


def test_what_is_wrong_is_said_before_anything_runs(spark: SparkSession, rows: pa.Table) -> None:
    frame, queries = spark.createDataFrame(rows), weft.sql(QUERIES)
    with pytest.raises(QueryError, match="no table 'index' is given; the tables given are close"):
        weft.share(frame, queries, time="ts", tables={"close": CLOSE})
    twice = pa.concat_tables([CLOSE, CLOSE])
    with pytest.raises(JobError, match="table 'close' has more than one row with symbol = 'A'"):
        weft.share(frame, queries, time="ts", tables={"close": twice, "index": INDEX})


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_tables_of_a_job_file(spark: SparkSession, engine: str, tmp_path: Path) -> None:
    (tmp_path / "close.csv").write_text("symbol;cp\nAAA;1.5\nAAB;2.5\n")
    job = parse(
        """
        [source]
        kind = "generator"
        rows = 2000
        [stream]
        time = "ts"
        [tables.close]
        path = "close.csv"
        delimiter = ";"
        [queries]
        sql = '''
        SELECT count(*) AS n, count(cp) AS met FROM trades [RANGE '1 hour'] LEFT JOIN close USING (symbol)
        '''
        [sink]
        kind = "memory"
        """,
        tmp_path,
    )
    sink = launch.run(job, engine, Report(Console(quiet=True)))
    (row,) = sink.tables["q1"].to_pylist()  # type: ignore[attr-defined]
    assert row["n"] == 2000
    assert 0 < row["met"] < 2000
