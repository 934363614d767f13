"""One zone for a run on Spark: the session's, for every source, as in Spark's own answers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

import weft
from support.seeds import seeded_random
from weft.errors import CheckpointError, JobError
from weft.expr.evaluate import Evaluator
from weft.jobs import launch
from weft.jobs.job import parse
from weft.jobs.report import Report
from weft.sinks import MemorySink
from weft.spark.frames import frame_of
from weft.sql import sql

ZONE = "spark.sql.session.timeZone"
EIGHT = dt.datetime(2024, 7, 1, 8, tzinfo=dt.UTC)
CLOCKS = {"UTC": "08:00", "Europe/Berlin": "10:00", "America/New_York": "04:00", "GMT+05:30": "13:30"}
QUERY = """-- name: q
SELECT count(*) AS n, max(hour(ts)) AS h, max(CAST(ts AS string)) AS s, max(hour(local)) AS l, max(ts) AS t
FROM s [RANGE '1 day'] WHERE hour(ts) = {hour} AND ts = TIMESTAMP '2024-07-01 {clock}' GROUP BY ts"""


@contextmanager
def session_in(spark: SparkSession, zone: str) -> Iterator[None]:
    spark.conf.set(ZONE, zone)
    try:
        yield
    finally:
        spark.conf.set(ZONE, "UTC")


def written(folder: Path) -> weft.Files:
    folder.mkdir()
    times = pa.array([EIGHT], pa.timestamp("us", "Europe/Berlin"))
    pq.write_table(pa.table({"ts": times, "local": [EIGHT.replace(tzinfo=None)]}), folder / "1.parquet")
    return weft.Files(folder)


def test_every_source_has_the_zone_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    """Files typed in one zone, read by weft and by Spark, and the same rows in this process."""
    files = written(tmp_path / "in")
    generated = sql("SELECT min(hour(ts)) AS h FROM s [RANGE '1 hour']")
    for zone, clock in CLOCKS.items():
        hour = int(clock[:2])
        queries = sql(QUERY.format(hour=hour, clock=clock))
        with session_in(spark, zone):
            frame = spark.read.parquet(str(tmp_path / "in"))
            found = [weft.share(source, queries, time="ts", spark=spark) for source in (files, frame)]
            found = [frames.to_arrow()["q"] for frames in found]
            made = weft.share(weft.Generated("trades", 10), generated, time="ts", spark=spark)
        found.append(weft.run(queries, files, time="ts", zone=zone)["q"])
        shown = (1, hour, f"2024-07-01 {clock}:00", 8, EIGHT)
        for table in found:
            assert [tuple(row[n] for n in "nhslt") for row in table.to_pylist()] == [shown]
            assert table["ts"].to_pylist() == [EIGHT]
        same = weft.run(generated, weft.Generated("trades", 10), time="ts", zone=zone)["q1"]["h"]
        assert made.to_arrow()["q1"]["h"].to_pylist() == same.to_pylist()


NATIVE = """year(t) quarter(t) month(t) day(t) dayofweek(t) dayofyear(t) hour(t) minute(t) second(t)
CAST(t AS string) CAST(t AS date) CAST(t AS bigint) hour(n) day(n) CAST(n AS string) CAST(n AS date)
hour(d) day(d)"""
EXPRESSIONS = [
    *NATIVE.replace("CAST(", "\nCAST(").replace(") ", ")\n").split("\n"),
    "CAST(CAST(s AS timestamp) AS bigint)",
    "CAST(CAST(d AS timestamp) AS bigint)",
    "t < TIMESTAMP '2024-10-27 02:30:00'",
    "t < '2011-12-30 12:00:00'",
    "n < '2011-12-30 12:00:00'",
    "t < DATE '2018-11-04'",
    "t = n",
    "t < d",
]


def test_hours_equal_spark_from_1950_to_2100(spark: SparkSession) -> None:
    """Generated instants, half of them near changes of clocks: north, south, and by half an hour."""
    rng = seeded_random(20241027)
    changes = [(2024, 3, 31, 1), (2024, 10, 27, 1), (2018, 11, 4, 3), (2018, 2, 18, 2), (2024, 4, 6, 15)]
    changes += [(2024, 10, 5, 15), (2011, 12, 30, 10), (2060, 3, 28, 1), (2024, 11, 3, 6), (1965, 4, 25, 7)]
    times = [
        dt.datetime(1950, 1, 1) + dt.timedelta(seconds=rng.randrange(150 * 365 * 86_400)) for _ in range(300)
    ]
    times += [
        dt.datetime(*rng.choice(changes)) + dt.timedelta(seconds=rng.randrange(-9000, 9000))
        for _ in range(300)
    ]
    table = pa.table(
        {
            "t": pa.array([t.replace(tzinfo=dt.UTC) for t in times], pa.timestamp("us", "UTC")),
            "n": pa.array(times, pa.timestamp("us")),
            "d": pa.array([t.date() for t in times]),
            "s": [t.isoformat(" ") for t in times],
        }
    )
    texts = [text.strip() for text in EXPRESSIONS if text.strip()]
    query = sql(
        "SELECT " + ", ".join(f"max({e}) AS c{i}" for i, e in enumerate(texts)) + " FROM s [RANGE '1 s']"
    )
    asked = {a.alias: a.args[0] for a in query[0].aggregates}  # type: ignore[union-attr]
    batch = table.combine_chunks().to_batches()[0]
    for zone in (
        "Europe/Berlin",
        "America/New_York",
        "America/Sao_Paulo",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
    ):
        with session_in(spark, zone):
            frame = frame_of(table, spark)
            truth = frame.selectExpr(*(f"{e} AS c{i}" for i, e in enumerate(texts))).toArrow()
        rows = Evaluator(batch, zone=zone)
        for i, text in enumerate(texts):
            ours, theirs = rows.evaluate(asked[f"c{i}"]).to_pylist(), truth.column(f"c{i}").to_pylist()
            wrong = [(t, a, b) for t, a, b in zip(times, ours, theirs, strict=True) if a != b]
            assert not wrong, f"{text} in {zone}: {len(wrong)} of {len(times)}, such as {wrong[:3]}"


def test_a_checkpoint_goes_on_in_its_zone(spark: SparkSession, tmp_path: Path) -> None:
    files = written(tmp_path / "in")
    queries = sql("-- name: q\nSELECT max(hour(ts)) AS h FROM s [RANGE '1 day']")

    def run(sink: MemorySink, **options: Any) -> None:
        place = tmp_path / "checkpoint"
        with weft.stream(
            files, queries, "ts", sink=sink, checkpoint=place, trigger="available now", spark=spark, **options
        ) as running:
            running.await_done()

    with session_in(spark, "Asia/Kolkata"):
        run(MemorySink())
    with pytest.raises(
        CheckpointError, match=r"written with local times in Asia/Kolkata, .* in UTC; set spark"
    ):
        run(MemorySink())
    with session_in(spark, "Asia/Kolkata"):
        sink = MemorySink()
        run(sink, close_at_end=True)
    assert sink.tables["q"]["h"].to_pylist() == [13]


def test_a_job_does_not_change_the_zone_of_a_session(spark: SparkSession, tmp_path: Path) -> None:
    written(tmp_path / "in")
    job = parse(
        """
        [source]
        kind = "files"
        path = "in"
        [stream]
        time = "ts"
        zone = "Asia/Kolkata"
        [queries]
        sql = "SELECT max(hour(ts)) AS h FROM s [RANGE '1 day']"
        [sink]
        kind = "memory"
        """,
        tmp_path,
    )
    report = Report(Console(quiet=True))
    with pytest.raises(
        JobError, match="session that is running has its local times in UTC, not in Asia/Kolkata"
    ):
        launch.run(job, "spark", report)
    with session_in(spark, "Asia/Kolkata"):
        sink: Any = launch.run(job, "spark", report)
    assert sink.tables["q1"]["h"].to_pylist() == [13]


def test_a_zone_that_only_java_knows_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    files = written(tmp_path / "in")
    queries = sql("SELECT count(*) AS n FROM s [RANGE '1 day']")
    with (
        session_in(spark, "JST"),
        pytest.raises(JobError, match=f"{ZONE} cannot be used: unknown time zone 'JST'"),
    ):
        weft.share(files, queries, time="ts", spark=spark)
