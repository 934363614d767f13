"""Late rows and lateness on Spark: kept once each, also over a step that is made again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

import weft
from support import trades
from weft.errors import JobError
from weft.io.files import Files
from weft.jobs import job as jobs
from weft.jobs import launch
from weft.jobs.report import Report
from weft.sinks import MemorySink, ParquetSink
from weft.spark import Run
from weft.store.checkpoint import Checkpoint

FILES = 4
ROWS = 100


class Failing(ParquetSink):
    """Takes the third step, and then says that it could not."""

    def deliver(self, results: dict[str, pa.Table], seq: int) -> None:
        super().deliver(results, seq)
        if seq == 3:
            raise OSError("no room")


def write(place: Path) -> pa.Table:
    """Four files; in the third, ten rows of the first file's time come again, and one without any."""
    rows = trades.table(FILES * ROWS)
    again = rows.slice(0, 10)
    untimed = rows.slice(0, 1).set_column(0, "ts", pa.nulls(1, rows.schema.field("ts").type))
    parts = [rows.slice(i * ROWS, ROWS) for i in range(FILES)]
    parts[2] = pa.concat_tables([again, parts[2], untimed])
    for number, part in enumerate(parts):
        trades.write(part, place / "in", files=1, first=number)
    return again


def begin(spark: SparkSession, place: Path, **options: Any) -> Run:
    return weft.stream(
        Files(place / "in", max_files_per_batch=1),
        trades.queries(),
        time="ts",
        checkpoint=place / "checkpoint",
        trigger="available now",
        spark=spark,
        buckets=2,
        **options,
    )


def test_late_rows_are_kept_once(spark: SparkSession, tmp_path: Path) -> None:
    again = write(tmp_path)
    with pytest.raises(JobError, match="sink Failing failed at step 3: no room"):
        begin(spark, tmp_path, sink=MemorySink(), late=Failing(tmp_path / "rows")).await_done()
    assert pq.read_table(tmp_path / "rows" / "late").num_rows == 11
    run = begin(spark, tmp_path, sink=MemorySink(), late=ParquetSink(tmp_path / "rows"))
    run.await_done()
    found = pq.read_table(tmp_path / "rows" / "late")
    assert sorted(map(repr, found.column("ts").to_pylist())) == sorted(
        map(repr, [*again.column("ts").to_pylist(), None])
    )
    # Ends after 199 s are still open: of the windows of 5 minutes, those to 240 s and 300 s.
    assert set(found.column("reason").to_pylist()) == {"late for 5 of its 7 windows", "no event time"}
    assert set(found.column("unread").to_pylist()) == {None}
    # The third step was committed by the first run, and only its late rows were delivered by the second.
    assert [p.seq for p in run.progress] == [4]
    last = Checkpoint(str(tmp_path / "checkpoint")).last
    assert last is not None
    (stream,) = last.streams.values()
    assert stream.seen["late"] + stream.seen["untimed"] == found.num_rows


def test_lateness_holds_from_the_next_batch_and_for_runs_that_follow(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path)
    runs: list[Run] = []

    def change(progress: Any) -> None:
        if progress.seq == 1:
            while not runs:
                pass
            runs[0].set_lateness("150 s")

    def waits(run: Run) -> list[float]:
        latest = trades.START / 1e6
        return [latest + ROWS * p.seq - 1 - p.watermark / 1e6 for p in run.progress]

    last = tmp_path / "in" / f"part-{FILES - 1:04}.parquet"
    last.rename(tmp_path / "later.parquet")
    runs.append(begin(spark, tmp_path, sink=MemorySink(), on_progress=change))
    runs[0].await_done()
    assert waits(runs[0]) == [0, 100, 150], "the watermark does not go back"
    (tmp_path / "later.parquet").rename(last)
    again = begin(spark, tmp_path, sink=MemorySink())
    again.await_done()
    assert waits(again) == [150], "as it was set"
    versions = sorted((tmp_path / "checkpoint" / "registry").glob("*.json"))
    assert json.loads(versions[-1].read_text())["lateness"] == {"": 150_000_000}

    trades.write(
        trades.table(ROWS, start=trades.START + FILES * ROWS * trades.SECOND), tmp_path / "in", 1, FILES
    )
    other = begin(spark, tmp_path, sink=MemorySink(), lateness="20 s")
    other.await_done()
    assert waits(other) == [20], "as it was given"


@pytest.mark.parametrize(("engine", "late"), [("local", 0), ("spark", 10)])
def test_a_job_keeps_late_rows(spark: SparkSession, tmp_path: Path, engine: str, late: int) -> None:
    """The in-process runner reads small files in one batch, in which no row is late."""
    write(tmp_path)
    (tmp_path / "job.toml").write_text(
        f"""
        [source]
        kind = "files"
        path = "in"
        max_files_per_batch = 1
        [stream]
        time = "ts"
        lateness = "0 s"
        [queries]
        sql = '''{trades.QUERIES}'''
        [sink]
        kind = "memory"
        [late]
        path = "kept"
        """
    )
    launch.run(jobs.load(tmp_path / "job.toml"), engine, Report(Console(quiet=True)))
    kept = pq.read_table(tmp_path / "kept" / "late")
    reasons = kept.column("reason").to_pylist()
    assert (reasons.count("no event time"), len(reasons)) == (1, late + 1)
