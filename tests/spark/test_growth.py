"""A stream that runs for long takes no more memory than one that has just become warm."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft
from support import steps
from weft.io.files import Files
from weft.runner.progress import Progress
from weft.spark.payload import from_batches, to_batches, wrap


@pytest.mark.slow
def test_neither_the_driver_nor_the_workers_grow_with_the_steps(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, batch in enumerate(steps.batches()):
        path = folder / f"part-{number:04}.parquet"
        pq.write_table(batch, path)
        os.utime(path, (1_700_000_000 + number,) * 2)
    watched, growth = steps.Watched(), {}

    def look(progress: Progress) -> None:
        watched.look(progress.seq, [psutil.Process(), *workers()])
        if progress.seq == steps.STEPS:
            growth.update(watched.growth())

    run = weft.stream(
        Files(folder, max_files_per_batch=1),
        weft.sql(steps.QUERIES),
        time="ts",
        sink=lambda *_: None,
        lateness="0 s",  # windows are answered as the stream goes on, and not at its end
        trigger="available now",
        buckets=2,
        spark=spark,
        on_progress=look,
    )
    assert run.await_done(600)
    driver = growth.pop(os.getpid())
    assert growth, "the workers are known"
    assert driver < steps.BOUND
    assert sum(growth.values()) < steps.BOUND


def test_parcels_let_go_of_what_they_carried() -> None:
    before = pa.total_allocated_bytes()
    for _ in range(50):
        parcels = [p for n in range(3) for p in wrap(pa.table({"x": range(1000)}), bucket=0, tag=n, origin=1)]
        batches = list(to_batches(parcels))
        assert [p.tag for p in from_batches(batches)] == [0, 1, 2]
        assert [p.table.num_rows for p in from_batches(batches)] == [1000] * 3
        del parcels, batches
    assert pa.total_allocated_bytes() - before < 50_000


def workers() -> list[psutil.Process]:
    """The Python processes below the JVM."""
    below = psutil.Process().children(recursive=True)
    return [p for p in below if p.is_running() and p.name().startswith("python")]
