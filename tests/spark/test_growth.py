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
from weft.runner.parcels import Parcel, ParcelKind
from weft.runner.program import ProgramCompiler
from weft.runner.progress import Progress
from weft.spark.parcels import from_batches, to_batches


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
    program = ProgramCompiler({}, {}).compile([])
    before = pa.total_allocated_bytes()
    for _ in range(50):
        parcels = [
            Parcel(0, ParcelKind.RESULT, "", str(n), 1, pa.table({"x": range(1000)})) for n in range(3)
        ]
        batches = list(to_batches(parcels, program))
        assert [p.part for p in from_batches(batches, program)] == ["0", "1", "2"]
        assert [p.content.num_rows for p in from_batches(batches, program)] == [1000] * 3
        del parcels, batches
    assert pa.total_allocated_bytes() - before < 50_000


def workers() -> list[psutil.Process]:
    """The Python processes below the JVM."""
    below = psutil.Process().children(recursive=True)
    return [p for p in below if p.is_running() and p.name().startswith("python")]
