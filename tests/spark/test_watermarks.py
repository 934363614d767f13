"""What moves the watermark on Spark: nothing is lost between runs or partitions, or to a wrong clock."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

import weft
from support.brokers import Broker
from support.commits import failing_commit
from weft.errors import CheckpointError, JobError
from weft.io.files import Files
from weft.jobs import job as jobs
from weft.jobs import launch
from weft.jobs.report import Report
from weft.operators.late import AHEAD_REASON
from weft.operators.watermark import UNREAD_REMARK
from weft.runner.clock import WHOLE_STREAM
from weft.sinks import MemorySink
from weft.spark import Run
from weft.store.checkpoint import Checkpoint

MINUTE = 60_000_000
START = 1_704_067_200_000_000
YEARS = 10 * 366 * 24 * 60
HOURLY = weft.sql("-- name: hourly\nSELECT count(*) AS n FROM s [RANGE '1 hour']")


def write(folder: Path, name: str, *spans: range) -> None:
    """A file of one row a minute; Spark takes files in order of modification, which is that of names."""
    folder.mkdir(exist_ok=True)
    minutes = [START + m * MINUTE for span in spans for m in span]
    path = folder / f"{name}.parquet"
    pq.write_table(pa.table({"ts": pa.array(minutes).cast(pa.timestamp("us", "UTC"))}), path)
    os.utime(path, (1_700_000_000 + ord(name[0]),) * 2)


def begin(spark: SparkSession, source: Any, **options: Any) -> tuple[Run, MemorySink]:
    sink = options.pop("sink", None) or MemorySink()
    options = {"trigger": "available now", "buckets": 2, **options}
    return weft.stream(source, HOURLY, time="ts", spark=spark, sink=sink, **options), sink


def count(sink: MemorySink) -> int:
    return sum(sink.tables["hourly"].column("n").to_pylist()) if "hourly" in sink.tables else 0


def total(run: Run, name: str) -> int:
    return sum(getattr(p, name) for p in run.progress)


JOB = """
[source]
kind = "files"
path = "in"
[stream]
time = "ts"
checkpoint = "checkpoint"
{more}
[queries]
sql = "SELECT count(*) AS n FROM s [RANGE '1 hour']"
[sink]
kind = "parquet"
path = "out"
[spark]
buckets = 2
"""


def run_job(place: Path, more: str = "") -> list[Any]:
    told: list[Any] = []
    job, report = jobs.parse(JOB.format(more=more), place), Report(Console(quiet=True))
    with launch.start(
        job, "spark", launch.make_sink(job, report), report, on_progress=told.append
    ) as running:
        running.await_done()
    return told


def test_two_runs_of_a_job_over_one_checkpoint_count_every_row(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", "a", range(90))
    told = run_job(tmp_path)
    write(tmp_path / "in", "b", range(90, 300))
    told += run_job(tmp_path)
    assert (sum(p.rows for p in told), sum(p.late for p in told)) == (300, 0)
    # What is still open waits for the next run, or for one that is told to close.
    before = sum(pq.read_table(tmp_path / "out" / "q1").column("n").to_pylist())
    assert before == 240
    told = run_job(tmp_path, "close_at_end = true")
    assert sum(pq.read_table(tmp_path / "out" / "q1").column("n").to_pylist()) == 300
    assert "rows before 2024-01-01 05:00:00 UTC that come later are late" in told[-1].remark


def test_a_stream_that_ends_without_a_checkpoint_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", "a", range(200, 300))
    write(tmp_path / "in", "b", range(200))
    files = Files(tmp_path / "in", max_files_per_batch=1)
    run, sink = begin(spark, files)
    run.await_done()
    assert (count(sink), total(run, "late")) == (300, 0)
    assert [p.remark for p in run.progress] == [UNREAD_REMARK, UNREAD_REMARK, ""]
    late, sink = begin(spark, files, lateness="0 s")
    late.await_done()
    assert (count(sink), total(late, "late")) == (100, 200)
    with pytest.raises(JobError, match="close_at_end needs an end"):
        begin(spark, files, close_at_end=True, trigger="5 s")


def test_a_row_ten_years_ahead_makes_no_row_late_also_when_its_step_is_made_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in", "a", range(100))
    write(tmp_path / "in", "b", range(100, 101), range(YEARS, YEARS + 1))
    write(tmp_path / "in", "c", range(101, 300))
    files = Files(tmp_path / "in", max_files_per_batch=1)
    options = {"checkpoint": tmp_path / "state"}
    kept = MemorySink()
    with failing_commit(2), pytest.raises(CheckpointError, match="no room"):
        begin(spark, files, late=kept, **options)[0].await_done()
    # Each is kept for as long as its step may be made again: until the one after it is committed.
    assert clocks(tmp_path / "state") == [1, 2]
    # Years later, the row would no longer be ahead; the step made again has the clock that it had.
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 12 * 366 * 86_400)
    again, _ = begin(spark, files, late=kept, **options)
    again.await_done()
    assert [(p.seq, p.ahead, p.late) for p in again.progress] == [(2, 1, 0), (3, 0, 0)]
    assert again.progress[-1].watermark == START + 299 * MINUTE
    assert [row["reason"] for row in kept.tables["late"].to_pylist()] == [AHEAD_REASON]
    assert clocks(tmp_path / "state") == [3]


def clocks(place: Path) -> list[int]:
    return sorted(int(path.stem) for path in (place / "clocks").glob("*.json"))


def test_the_window_of_a_row_ahead_is_answered_where_nothing_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "in", "a", range(100), range(YEARS, YEARS + 1))
    run, sink = begin(spark, Files(tmp_path / "in"), max_ahead="1 hour")
    run.await_done()
    assert (count(sink), total(run, "ahead")) == (101, 1)
    run, sink = begin(spark, Files(tmp_path / "in"), checkpoint=tmp_path / "state", close_at_end=True)
    run.await_done()
    # With a checkpoint it waits: answering it would make ten years of rows late.
    assert (count(sink), total(run, "ahead")) == (100, 1)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    yield Broker()


def test_a_backlog_of_a_topic_loses_nothing_to_a_partition_that_is_ahead(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    parts = [range(600), range(-300, 300), range(-900, -300), range(10)]
    for partition, some in enumerate(parts):
        for minute in some:
            at = datetime.datetime(2024, 1, 1) + datetime.timedelta(minutes=minute)
            value = json.dumps({"ts": at.isoformat() + "Z"}).encode()
            broker._producer.produce("backlog", value, partition=partition)
    assert broker._producer.flush(20) == 0
    source = weft.Kafka(broker.servers, "backlog", schema={"ts": "timestamp"}, max_rows_per_batch=500)
    options = {"checkpoint": tmp_path / "state", "idle_timeout": "1 hour"}
    run, _ = begin(spark, source, **options)
    run.await_done()
    assert len(run.progress) >= 4
    assert (total(run, "rows"), total(run, "late")) == (sum(map(len, parts)), 0)
    # The partition that is furthest behind says how far the stream has come.
    assert run.progress[-1].watermark == START - 301 * MINUTE
    last = Checkpoint(str(tmp_path / "state")).last
    assert last is not None
    (heard,) = last.streams.values()
    assert set(heard.heard) - {WHOLE_STREAM} == set(heard.seen["latest"]) == {"0", "1", "2", "3"}


def test_a_silent_stream_of_a_join_holds_state_only_until_it_is_idle(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joins = weft.sql(
        "-- name: j\nSELECT a.ts AS at FROM a [RANGE '1 min'], b [RANGE '1 min'] WHERE a.ts = b.ts"
    )
    write(tmp_path / "b", "a", range(1))
    for number, name in enumerate("abcd"):
        write(tmp_path / "a", name, range(30 * number, 30 * number + 30))
    now = time.time()
    ticks = iter(range(0, 100_000, 600))
    monkeypatch.setattr("weft.spark.driver.wall_clock", lambda: now + next(ticks))
    held = {}
    for idle in (None, "5 min"):
        run = weft.stream(
            {name: Files(tmp_path / name, max_files_per_batch=1) for name in ("a", "b")},
            joins,
            time="ts",
            spark=spark,
            sink=MemorySink(),
            trigger="available now",
            checkpoint=tmp_path / f"state-{idle}",
            idle_timeout=idle,
            buckets=2,
        )
        run.await_done()
        held[idle] = [p.state_rows for p in run.progress if p.kind == "batch"][-1]
    assert held[None] >= 119
    assert held["5 min"] <= 35
