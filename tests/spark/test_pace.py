"""Steps of as many files as take about as long as was asked for; a batch taken in parts is taken once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import weft
from support import trades
from weft.errors import JobError
from weft.io.files import Files
from weft.sinks import MemorySink, ParquetSink
from weft.spark import Run
from weft.spark.pace import Pace

FILES = 6
ROWS = 100


@given(st.lists(st.integers(0, 1 << 30), min_size=1), st.floats(0, 1e4), st.integers(0, 1 << 30))
def test_there_is_always_a_next_file(sizes: list[int], seconds: float, before: int) -> None:
    pace = Pace(2.0)
    assert pace.take(sizes) == 1
    pace.learn(before, seconds, full=True)
    count = pace.take(sizes)
    assert 1 <= count <= len(sizes)
    assert count == 1 or sum(sizes[:count]) <= pace.size <= 2 * max(before, 1)


@pytest.mark.parametrize("overhead", [0.0, 0.3])
def test_it_comes_near_the_target_and_follows_a_slower_machine(overhead: float) -> None:
    pace = Pace(2.0)

    def last_of(speed: float) -> float:
        for _ in range(20):
            size = 10 * pace.take([10] * 10_000)
            seconds = overhead + size / speed
            pace.learn(size, seconds, full=True)
        return seconds

    assert last_of(1000.0) == pytest.approx(2.0, rel=0.2)
    assert last_of(100.0) == pytest.approx(2.0, rel=0.2)


def test_a_step_that_had_no_more_files_says_nothing() -> None:
    pace = Pace(2.0)
    pace.learn(100, 2.0, full=True)
    pace.learn(1, 0.3, full=False)
    assert pace.size == 100


def begin(spark: SparkSession, place: Path, **options: Any) -> Run:
    return weft.stream(
        Files(place / "in"),
        trades.queries(),
        time="ts",
        checkpoint=place / "checkpoint",
        trigger="available now",
        close_at_end=True,
        buckets=2,
        spark=spark,
        **options,
    )


class Failing(ParquetSink):
    """Takes the third step, and then says that it could not."""

    def deliver(self, results: dict[str, pa.Table], seq: int) -> None:
        super().deliver(results, seq)
        if seq == 3:
            raise OSError("no room")


def test_a_batch_taken_in_parts_is_taken_once(spark: SparkSession, tmp_path: Path) -> None:
    rows = trades.table(FILES * ROWS)
    trades.write(rows, tmp_path / "in", files=FILES)
    with pytest.raises(JobError, match="no room"):
        begin(spark, tmp_path, sink=Failing(tmp_path / "out"), target_batch="1 ms").await_done()
    # The step that the sink failed in is committed, and delivered first by the next run.
    last = json.loads(max((tmp_path / "checkpoint" / "manifests").iterdir()).read_text())
    assert (last["batch_id"], last["taken"]) == (0, 3)
    run = begin(spark, tmp_path, sink=ParquetSink(tmp_path / "out"), target_batch="1 ms")
    run.await_done()
    assert [(p.batch_id, p.rows) for p in run.progress] == [(0, ROWS)] * (FILES - 3) + [(0, 0)]
    found = {q.name: pq.read_table(tmp_path / "out" / q.name) for q in trades.queries()}
    assert trades.close(trades.rows_of(found), trades.expected(rows))


def test_steps_grow_while_they_are_short(spark: SparkSession, tmp_path: Path) -> None:
    trades.write(trades.table(FILES * ROWS), tmp_path / "in", files=FILES)
    run = begin(spark, tmp_path, sink=MemorySink(), target_batch="1 hour")
    run.await_done()
    steps = [p.rows for p in run.progress if p.kind == "batch"]
    assert steps[0] == ROWS
    assert max(steps) >= 2 * ROWS
    assert sum(steps) == FILES * ROWS


def test_a_frame_has_no_files(spark: SparkSession, tmp_path: Path) -> None:
    rate = spark.readStream.format("rate").load()
    with pytest.raises(JobError, match="target_batch needs a source of files"):
        weft.stream(rate, [], time="timestamp", sink=MemorySink(), target_batch="2 s")
