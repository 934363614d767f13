"""A checkpoint whose two halves, weft's state and Spark's log, do not belong together any more."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

import weft
from support import trades
from weft.errors import CheckpointError, JobError
from weft.io.files import Files
from weft.sinks import MemorySink
from weft.spark.failure import translated
from weft.spark.spark_log import check_log
from weft.store.checkpoint import Checkpoint
from weft.store.log import BATCH, Entry

BATCHES = 13
"""Batches that have been; Spark has put together the files of the first ten, and let go the first offsets."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A checkpoint, as Spark and weft leave it."""
    place = tmp_path / "checkpoint"
    checkpoint = Checkpoint(str(place))
    checkpoint.claim()
    for batch in range(BATCHES):
        checkpoint.publish(Entry(batch + 1, "token", BATCH, batch_id=batch, version=1, buckets=1))
    for folder in ("offsets", "commits", "sources/0"):
        (place / "spark" / folder).mkdir(parents=True)
    (place / "spark" / "metadata").write_text("{}")
    for batch in range(3, BATCHES):
        offset = json.dumps({"logOffset": batch})
        (place / "spark" / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{offset}")
        (place / "spark" / "commits" / str(batch)).write_text("v1\n{}")
    for name in ("7", "8", "9.compact", "10", "11", "12"):
        (place / "spark" / "sources" / "0" / name).write_text("v1")
    return place


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_a_whole_checkpoint_is_taken(place: Path) -> None:
    check_log(Checkpoint(str(place)))
    check_log(Checkpoint(str(place / "new")))


@pytest.mark.parametrize(
    ("removed", "missing"),
    [
        ("spark", "spark/offsets/12"),
        ("spark/offsets", "spark/offsets/12"),
        ("spark/offsets/12", "spark/offsets/12"),
        ("spark/offsets/11", "spark/offsets/11"),
        ("spark/metadata", "spark/metadata"),
        ("spark/sources", "spark/sources/0/0"),
        ("spark/sources/0/9.compact", "spark/sources/0/0"),
        ("spark/sources/0/10", "spark/sources/0/10"),
        ("spark/sources/0/12", "spark/sources/0/12"),
    ],
)
def test_what_is_missing_of_sparks_log_is_named(place: Path, removed: str, missing: str) -> None:
    remove(place / removed)
    with pytest.raises(CheckpointError, match=rf"checkpoint/{missing}' is missing.*; restore 'spark' from a"):
        check_log(Checkpoint(str(place)))


@pytest.mark.parametrize(
    "removed", ["spark/commits", "spark/commits/12", "spark/offsets/3", "spark/sources/0/7"]
)
def test_what_spark_can_do_without_may_be_missing(place: Path, removed: str) -> None:
    remove(place / removed)
    check_log(Checkpoint(str(place)))


def test_a_log_of_an_earlier_time_is_refused(place: Path) -> None:
    for folder in ("offsets", "commits", "sources/0"):
        remove(place / "spark" / folder / "12")
    with pytest.raises(CheckpointError, match="spark/offsets/12' is missing"):
        check_log(Checkpoint(str(place)))


@pytest.mark.parametrize("removed", ["manifests", "manifests/0000000014.json"])
def test_missing_manifests_are_said_before_a_batch_comes(place: Path, removed: str) -> None:
    remove(place / removed)
    with pytest.raises(CheckpointError, match=r"Spark is at batch 13, but .* no manifest of batch 12"):
        check_log(Checkpoint(str(place)))


def test_a_batch_that_was_begun_is_made_again(place: Path) -> None:
    remove(place / "spark" / "commits" / "12")
    remove(place / "manifests" / "0000000014.json")
    check_log(Checkpoint(str(place)))


def test_a_run_of_another_process_that_writes_to_sparks_log_is_said() -> None:
    raised = Py4JError("[STREAM_FAILED] ...: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.")
    assert isinstance(translated(raised), CheckpointError)
    assert "only one run can use a checkpoint" in str(translated(raised))


def start(spark: SparkSession, place: Path, **options: object) -> weft.spark.Run:
    return weft.stream(
        Files(place / "in"),
        trades.queries(),
        time="ts",
        checkpoint=place / "checkpoint",
        spark=spark,
        buckets=1,
        **options,  # type: ignore[arg-type]
    )


def test_a_stream_whose_log_was_removed_loses_no_batch(spark: SparkSession, tmp_path: Path) -> None:
    rows = trades.table(300)
    trades.write(rows.slice(0, 200), tmp_path / "in", files=1)
    start(spark, tmp_path, sink=MemorySink(), trigger="available now").await_done()
    trades.write(rows.slice(200), tmp_path / "in", files=1, first=1)
    shutil.rmtree(tmp_path / "checkpoint" / "spark")
    with pytest.raises(CheckpointError, match="spark/offsets/0' is missing"):
        start(spark, tmp_path, sink=MemorySink(), trigger="available now")


def test_a_second_run_over_a_checkpoint_is_refused_and_the_first_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = trades.table(300)
    trades.write(rows, tmp_path / "in", files=3)
    first, second = MemorySink(), MemorySink()
    (tmp_path / "same").symlink_to(tmp_path)
    with start(spark, tmp_path, sink=first, trigger="available now", close_at_end=True) as run:
        for place in (tmp_path, tmp_path / "same"):
            with pytest.raises(JobError, match=r"checkpoint' is in use by another run of this process; stop"):
                start(spark, place, sink=second, trigger="available now")
        assert run.await_done()
    assert trades.close(trades.rows_of(first.tables), trades.expected(rows))
    assert not second.steps
    start(spark, tmp_path, sink=second, trigger="available now").await_done()
