"""Queries that differ in predicates, windows and group-bys, on Spark: as natively, and as in-process."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft
from support.native import collect, natively
from support.oracle import assert_same, rows_of
from support.predicate_cases import random_queries, trades
from weft.io.files import Files
from weft.sinks import MemorySink


@pytest.mark.slow
def test_row_for_row_as_native_spark(spark: SparkSession) -> None:
    table = trades(1500, seed=2)
    table = table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us", "UTC")))
    queries = random_queries(60, seed=11)
    frame = spark.createDataFrame(table).coalesce(1).cache()
    found = weft.share(frame, queries, time="ts").to_arrow()
    native = collect({q.name: natively(frame, q, table.schema) for q in queries})
    for query in queries:
        assert_same(query, found[query.name], rows_of(native[query.name]))


def test_batches_of_any_size_give_the_same(spark: SparkSession, tmp_path: Path) -> None:
    table = trades(6000, seed=3)
    queries = random_queries(200, seed=5)
    expected = weft.run(queries, table, time="ts")
    sizes = (1, 2500, 0, 7, 900, 2592)
    assert sum(sizes) == table.num_rows
    at = 0
    for number, size in enumerate(sizes):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(table.slice(at, size), path)
        os.utime(path, (1_700_000_000 + number,) * 2)
        at += size
    sink = MemorySink()
    weft.stream(
        Files(tmp_path, max_files_per_batch=1),
        queries,
        time="ts",
        sink=sink,
        trigger="available now",
        close_at_end=True,
        buckets=2,
        spark=spark,
    ).await_done()
    for query in queries:
        assert_same(query, sink.tables.get(query.name), rows_of(expected[query.name]))
