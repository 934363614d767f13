"""Over two hundred seeded queries, row for row as Spark's own ``groupBy(window(...))`` answers them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import weft
from support import oracle, seeded
from support.native import NATIVE, TIME, collect, natively
from support.oracle import Row, assert_same, rows_of
from support.seeds import seeded_random
from weft.aggregates import FUNCTIONS
from weft.io.files import Files
from weft.model.query import Query
from weft.sinks import MemorySink

COUNT = 210
INTERPRETED = {
    # Two thousand rows are answered long before Spark has compiled code for a query.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return seeded.table()


@pytest.fixture(scope="module")
def queries() -> list[Query]:
    return seeded.queries(COUNT)


@pytest.fixture(scope="module")
def interpreted(spark: SparkSession) -> Iterator[SparkSession]:
    before = {name: spark.conf.get(name, None) for name in INTERPRETED}
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@pytest.fixture(scope="module")
def frame(interpreted: SparkSession, table: pa.Table) -> Iterator[DataFrame]:
    frame = interpreted.createDataFrame(table).coalesce(1).cache()
    yield frame
    frame.unpersist()


@pytest.fixture(scope="module")
def expected(frame: DataFrame, table: pa.Table, queries: list[Query]) -> dict[str, list[Row]]:
    found = collect({query.name: natively(frame, query, table.schema) for query in queries})
    return {name: rows_of(table) for name, table in found.items()}


def test_every_aggregate_is_compared_with_spark() -> None:
    assert set(FUNCTIONS) <= set(NATIVE)


def test_the_oracle_agrees_with_spark(
    table: pa.Table, queries: list[Query], expected: dict[str, list[Row]]
) -> None:
    some = queries[::5]
    answers = oracle.answer(some, table.to_pylist(), TIME)
    for query in some:
        differences = list(oracle.differences(query, expected[query.name], answers[query.name], 1e-9))
        assert not differences, query


def test_batch_is_row_for_row_as_spark(
    frame: DataFrame, queries: list[Query], expected: dict[str, list[Row]]
) -> None:
    got = collect(weft.share(frame, queries, time=TIME))
    for query in queries:
        assert_same(query, got[query.name], expected[query.name])


@pytest.mark.parametrize("source", ["frame", "files"])
def test_streaming_is_row_for_row_as_spark(
    source: str,
    interpreted: SparkSession,
    table: pa.Table,
    queries: list[Query],
    expected: dict[str, list[Row]],
    tmp_path: Path,
) -> None:
    folder, sink = tmp_path / "in", MemorySink()
    write_files(table, folder, files=6, lateness=600 * seeded.SECOND)
    if source == "files":
        stream: DataFrame | Files = Files(folder, max_files_per_batch=2)
    else:
        schema = interpreted.createDataFrame(table.slice(0, 1)).schema
        stream = interpreted.readStream.schema(schema).option("maxFilesPerTrigger", 2).parquet(str(folder))
    run = weft.stream(
        stream,
        queries,
        time=TIME,
        lateness="600 s",
        checkpoint=tmp_path / "checkpoint",
        sink=sink,
        trigger="available now",
        close_at_end=True,
        spark=interpreted,
    )
    run.await_done()
    assert sum(step.late for step in run.progress) == 0
    for query in queries:
        assert_same(query, sink.tables.get(query.name), expected[query.name])


def write_files(table: pa.Table, folder: Path, files: int, lateness: int) -> None:
    """The rows in files, in an order of arrival in which none is too late: delayed by up to the lateness."""
    folder.mkdir()
    times = pc.fill_null(table[TIME].cast(pa.int64()), 0).to_pylist()
    chance = seeded_random(3)
    arrival = sorted(range(len(times)), key=lambda row: times[row] + chance.randint(0, lateness))
    size = -(-len(arrival) // files)
    for number in range(files):
        part = table.take(pa.array(arrival[number * size : (number + 1) * size]))
        path = folder / f"part-{number:03}.parquet"
        pq.write_table(part, path)
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
