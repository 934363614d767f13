"""Files as they arrive on Spark: none is passed over, none is taken twice, and the order is known."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import weft
from support.commits import failing_commit
from weft.errors import CheckpointError, JobError
from weft.io.files import Files
from weft.jobs.job import parse
from weft.jobs.launch import _spark_source
from weft.sinks import MemorySink
from weft.spark import Run

SCHEMA = {"ts": "timestamp", "x": "bigint"}
Start = Callable[..., Run]


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Start:
    """Start a stream over ``tmp_path/in`` that ends with its files; each result is one file's number."""

    def start(source: Any = None, **options: Any) -> Run:
        queries = weft.sql("-- name: q\nSELECT x, count(*) AS n FROM s [RANGE '1 s'] GROUP BY x")
        return weft.stream(
            Files(tmp_path / "in", "csv", SCHEMA, max_files_per_batch=1) if source is None else source,
            queries,
            time="ts",
            lateness="1 day",
            checkpoint=tmp_path / "checkpoint",
            trigger="available now",
            buckets=1,
            spark=spark,
            **{"sink": MemorySink(), **options},
        )

    (tmp_path / "in").mkdir()
    return start


def write(folder: Path, name: str, number: int, changed: float = 1.7e9) -> None:
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("ts,x\n" + f"2024-01-01T00:00:00Z,{number}\n" * number)
    os.utime(path, (changed, changed))


def taken(run: Run) -> list[int]:
    """The rows of each step: every file has as many as its number."""
    run.await_done()
    return [p.rows for p in run.progress if p.kind == "batch"]


def test_a_file_older_than_a_week_is_read_beside_newer_ones(start: Start, tmp_path: Path) -> None:
    write(tmp_path, "new", 1, 1.7e9)
    assert taken(start()) == [1]
    write(tmp_path, "old", 2, 1.7e9 - 400 * 86400)
    write(tmp_path, "oldest", 3, 1)
    assert taken(start()) == [3, 2]


def test_a_file_older_than_a_week_is_read_by_spark_itself(
    spark: SparkSession, start: Start, tmp_path: Path
) -> None:
    job = parse(
        f"""
        [source]
        kind = "files"
        path = "{tmp_path}/in"
        format = "csv"
        schema = {{ ts = "timestamp", x = "bigint" }}
        direct = false
        [stream]
        time = "ts"
        [queries]
        sql = "SELECT count(*) AS n FROM s [RANGE '1 s']"
        [sink]
        kind = "memory"
        """
    )
    for name, number, changed in (("new", 1, 1.7e9), ("old", 2, 1.6e9)):
        write(tmp_path, name, number, changed)
        assert taken(start(_spark_source(job.source, spark))) == [number]


def test_files_of_one_time_are_taken_by_name(start: Start, tmp_path: Path) -> None:
    numbers = [3, 8, 1, 5, 2, 7, 4, 6]
    for number in numbers:
        write(tmp_path, f"file-{number}", number)
    assert taken(start()) == sorted(numbers)


def test_files_with_several_names_and_odd_ones_are_read_once(start: Start, tmp_path: Path) -> None:
    odd = ["a b", "a#b", "a%20b", "größe", "x.parquet/part", "_day=1/x"]
    for number, name in enumerate(["plain", *odd], 1):
        write(tmp_path, name, number)
    for hidden in ("_tmp/x", ".y", "z._COPYING_"):
        write(tmp_path, hidden, 100)
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "again").symlink_to(tmp_path / "in" / "plain")
    assert sorted(taken(start())) == [1, 2, 3, 4, 5, 6, 7]
    in_process = [c.table.num_rows for c in Files(tmp_path / "in", "csv", SCHEMA, max_files_per_batch=1)]
    assert sum(in_process) == 28


def test_files_changed_while_a_batch_is_taken_keep_their_place(start: Start, tmp_path: Path) -> None:
    for number in range(1, 6):
        write(tmp_path, f"file-{number}", number)
    with failing_commit(3), pytest.raises(CheckpointError, match="no room"):
        taken(start())
    # The first was taken and is removed, the second was taken and changes; neither moves the others.
    (tmp_path / "in" / "file-1").unlink()
    os.utime(tmp_path / "in" / "file-2", (1.8e9, 1.8e9))
    write(tmp_path, "file-0", 10)
    assert taken(start()) == [3, 4, 5, 10]


def test_a_file_removed_before_it_was_taken_is_named(start: Start, tmp_path: Path) -> None:
    for number in range(1, 6):
        write(tmp_path, f"file-{number}", number)
    with failing_commit(3), pytest.raises(CheckpointError, match="no room"):
        taken(start())
    (tmp_path / "in" / "file-4").unlink()
    with pytest.raises(JobError, match=r"file-4' cannot be read as csv"):
        taken(start())
    files = Files(tmp_path / "in", "csv", SCHEMA, max_files_per_batch=1, on_bad_file="skip")
    run = start(files)
    assert taken(run) == [0, 5]
    assert [Path(name).name for p in run.progress for name in p.skipped_files] == ["file-4"]
