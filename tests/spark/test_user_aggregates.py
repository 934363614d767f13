"""User-defined aggregates and sketches on Spark: as the in-process runner answers, and after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import weft
from support import oracle, trades
from support.seeds import seeded_random
from support.user_aggregates import define_all
from weft import aggregates
from weft.errors import AggregateError
from weft.io.files import Files
from weft.model.query import Query
from weft.sinks import MemorySink

SELECT = """symbol, my_sum(volume) AS compiled, py_mean(price) AS plain, mapped(volume, volume + 1) AS mapped,
    approx_count_distinct(volume) AS distinct_volumes, approx_percentile(price, 0.9) AS high"""


@pytest.fixture(scope="module", autouse=True)
def defined() -> Iterator[None]:
    define_all()
    yield
    aggregates.USER_FUNCTIONS.clear()


@pytest.fixture(scope="module")
def queries(defined: None) -> list[Query]:
    return weft.sql(
        f"""
        -- name: sliding
        SELECT {SELECT} FROM trades [RANGE '120 s' SLIDE '60 s'] GROUP BY symbol;
        -- name: some
        SELECT {SELECT} FROM trades [RANGE '90 s'] WHERE volume > 300 GROUP BY symbol
        """
    )


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    """Out of order, by up to 30 seconds."""
    table, chance = trades.table(400), seeded_random(2)
    order = sorted(range(table.num_rows), key=lambda row: row + chance.randrange(30))
    return table.take(pa.array(order))


@pytest.fixture(scope="module")
def expected(rows: pa.Table, queries: list[Query]) -> dict[str, pa.Table]:
    # Windows of so few rows are answered exactly by the percentile's sketch, and the same by every merge.
    return weft.run(queries, rows, time="ts")


def check(queries: list[Query], got: dict[str, pa.Table], expected: dict[str, pa.Table]) -> None:
    for query in queries:
        oracle.assert_same(query, got[query.name], oracle.rows_of(expected[query.name]))


def test_a_batch(
    spark: SparkSession, rows: pa.Table, queries: list[Query], expected: dict[str, pa.Table]
) -> None:
    frame = spark.createDataFrame(rows).repartition(3)
    check(queries, weft.share(frame, queries, time="ts", buckets=2).to_arrow(), expected)


def test_a_stream_that_starts_again_from_its_checkpoint(
    spark: SparkSession, rows: pa.Table, queries: list[Query], expected: dict[str, pa.Table], tmp_path: Path
) -> None:
    answers: dict[str, list[pa.Table]] = {query.name: [] for query in queries}
    for half in (0, 1):
        trades.write(rows.slice(200 * half, 200), tmp_path / "in", files=2, first=2 * half)
        sink = MemorySink()
        run = weft.stream(
            Files(tmp_path / "in", max_files_per_batch=1),
            queries,
            time="ts",
            lateness="40 s",
            checkpoint=tmp_path / "checkpoint",
            sink=sink,
            trigger="available now",
            close_at_end=half == 1,
            buckets=2,
            spark=spark,
        )
        run.await_done()
        assert sum(step.late for step in run.progress) == 0
        for name, table in sink.tables.items():
            answers[name].append(table)
    check(queries, {name: pa.concat_tables(tables) for name, tables in answers.items()}, expected)


def test_an_error_in_a_task_names_the_aggregate(spark: SparkSession, rows: pa.Table) -> None:
    weft.define_aggregate(
        "fails",
        lift=lambda x: {x: 1 // (x - x)},
        combine=lambda a, b: a | b,
        lower=len,
        identity={},
        result="bigint",
    )
    failing = weft.sql("SELECT fails(volume) AS v FROM trades [RANGE '90 s']")
    with pytest.raises(AggregateError, match=r"fails: lift\(\d+\) raised ZeroDivisionError"):
        weft.share(spark.createDataFrame(rows), failing, time="ts")["q1"].toArrow()
