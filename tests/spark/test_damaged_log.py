"""Spark's own log under a checkpoint: what is damaged or gone is named, with what to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import trades
from weft.errors import CheckpointError
from weft.io.files import Files
from weft.sinks import MemorySink
from weft.spark import stream
from weft.spark.spark_log import check_log
from weft.store.checkpoint import Checkpoint


@pytest.fixture(scope="module")
def finished(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a run over three files."""
    place = tmp_path_factory.mktemp("log")
    trades.write(trades.table(300), place / "in", files=3)
    begin(spark, place, place / "checkpoint").await_done()
    return place


def begin(spark: SparkSession, place: Path, checkpoint: Path):  # type: ignore[no-untyped-def]
    files = Files(str(place / "in"), max_files_per_batch=1)
    return stream(
        files,
        trades.queries(),
        time="ts",
        checkpoint=checkpoint,
        sink=MemorySink(),
        trigger="available now",
        spark=spark,
    )


def newest(folder: Path) -> Path:
    return max((p for p in folder.iterdir() if p.name.isdecimal()), key=lambda p: int(p.name))


DAMAGES: dict[str, tuple[Callable[[Path], Path], Callable[[Path], object]]] = {
    "offsets cut off": (lambda log: newest(log / "offsets"), lambda p: p.write_bytes(p.read_bytes()[:-9])),
    "offsets empty": (lambda log: newest(log / "offsets"), lambda p: p.write_bytes(b"")),
    "offsets without end": (lambda log: newest(log / "offsets"), lambda p: p.write_bytes(b"v1\n")),
    "offsets of bytes": (lambda log: newest(log / "offsets"), lambda p: p.write_bytes(b"\xff\x00\xfe")),
    "offsets of other text": (lambda log: newest(log / "offsets"), lambda p: p.write_text("hello\nworld")),
    "offsets gone": (lambda log: newest(log / "offsets"), lambda p: p.unlink()),
    "commits cut off": (lambda log: newest(log / "commits"), lambda p: p.write_bytes(p.read_bytes()[:-1])),
    "commits of bytes": (lambda log: newest(log / "commits"), lambda p: p.write_bytes(b"v1\n\xff")),
    "metadata cut off": (lambda log: log / "metadata", lambda p: p.write_text('{"id":')),
    "metadata gone": (lambda log: log / "metadata", lambda p: p.unlink()),
}


@pytest.mark.parametrize(("choose", "harm"), DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_named_before_anything_runs(
    spark: SparkSession,
    finished: Path,
    tmp_path: Path,
    choose: Callable[[Path], Path],
    harm: Callable[[Path], object],
) -> None:
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(finished / "checkpoint", checkpoint)
    check_log(Checkpoint(str(checkpoint)))
    harmed = choose(checkpoint / "spark")
    harm(harmed)
    with pytest.raises(CheckpointError) as refused:
        begin(spark, finished, checkpoint)
    assert str(harmed) in str(refused.value)
    assert "restore 'spark' from a backup" in str(refused.value)


def test_a_log_that_is_whole_is_gone_on_with(spark: SparkSession, finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished / "checkpoint", tmp_path / "checkpoint")
    assert begin(spark, finished, tmp_path / "checkpoint").await_done(120)
