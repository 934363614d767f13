"""``weft.stream``: micro-batches, watermark, flushes, replays and restarts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import weft
from support import trades
from support.waiting import wait_for
from weft.errors import CheckpointError, JobError, WeftError
from weft.io.files import Files
from weft.operators.windows.answer import closing_time
from weft.sinks import MemorySink, ParquetSink
from weft.spark import Run


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return trades.table()


Start = Callable[..., Run]


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Start:
    """Start a stream over ``tmp_path/in``, with its checkpoint beside it."""

    def start(source: DataFrame | Files | None = None, **options: Any) -> Run:
        defaults = {
            "time": "ts",
            "checkpoint": tmp_path / "checkpoint",
            "trigger": "available now",
            "spark": spark,
            "buckets": 2,
        }
        if source is None:
            source = Files(tmp_path / "in", max_files_per_batch=1)
        return weft.stream(source, options.pop("queries", trades.queries()), **(defaults | options))

    return start


@pytest.mark.fast
def test_files_in_batches_as_all_rows_at_once(start: Start, rows: pa.Table, tmp_path: Path) -> None:
    trades.write(rows, tmp_path / "in", files=4)
    sink, seen = MemorySink(), []
    run = start(sink=sink, close_at_end=True, on_progress=seen.append)
    assert run.await_done()
    assert trades.close(trades.rows_of(sink.tables), trades.expected(rows))
    assert [p.kind for p in run.progress] == ["batch"] * 4 + ["flush"]
    assert [p.seq for p in seen] == [1, 2, 3, 4, 5]
    assert sum(p.rows for p in seen) == rows.num_rows
    assert all(p.late == p.untimed == p.bad == 0 for p in seen)
    assert seen[0].results > 0, "windows are answered as soon as the watermark passes them"
    assert seen[-1].state_rows == 0
    assert not run.is_active
    assert run.exception is None
    assert sum(c.rows for c in seen[0].sharing) > 0
    assert {c.how for c in seen[0].sharing} <= {"shared", "spread", "unshared"}
    assert [q.name for q in run.queries()] == ["busy", "calm", "everything"]
    assert len(run.plan.queries) == 3


def test_a_streaming_frame(spark: SparkSession, start: Start, rows: pa.Table, tmp_path: Path) -> None:
    trades.write(rows, tmp_path / "in", files=3)
    reader = spark.readStream.schema(spark.createDataFrame(rows.slice(0, 1)).schema)
    frame = reader.option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    sink = ParquetSink(tmp_path / "out")
    start(frame, sink=sink, close_at_end=True).await_done()
    written = {
        name: spark.read.parquet(str(tmp_path / "out" / name)).toArrow()
        for name in ("busy", "calm", "everything")
    }
    assert trades.close(trades.rows_of(written), trades.expected(rows))


def test_a_bucket_without_rows_answers_too(start: Start, tmp_path: Path) -> None:
    # All keys but one come only in the first file; the watermark moves on by the one.
    first = trades.table(100)
    later = trades.table(100, start=trades.START + 600 * trades.SECOND)
    later = later.set_column(1, "symbol", pa.array(["A"] * 100))
    trades.write(first, tmp_path / "in", files=1)
    trades.write(later, tmp_path / "in", files=1, first=1)
    sink = MemorySink()
    run = start(sink=sink, buckets=4)
    run.await_done()
    assert run.progress[1].results > 0
    answered = {row["symbol"] for row in sink.steps[2]["calm"].to_pylist()}
    assert {"B", "C", "D", None} <= answered


def test_restart_goes_on_where_it_was(start: Start, rows: pa.Table, tmp_path: Path) -> None:
    sink = MemorySink()
    for number in range(3):
        trades.write(rows.slice(number * 700, 700), tmp_path / "in", files=1, first=number)
        start(sink=sink, close_at_end=number == 2, buckets=2 + number).await_done()
    assert trades.close(trades.rows_of(sink.tables), trades.expected(rows))
    assert sorted(sink.steps) == [1, 2, 3, 4]


def test_nothing_new_makes_no_step(start: Start, tmp_path: Path) -> None:
    trades.write(trades.table(100), tmp_path / "in", files=1)
    for _ in range(2):
        run = start(sink=MemorySink(), close_at_end=True)
        run.await_done()
    assert run.progress == []


def test_a_committed_batch_is_skipped_when_replayed(start: Start, rows: pa.Table, tmp_path: Path) -> None:
    trades.write(rows, tmp_path / "in", files=2)
    sink = MemorySink()
    run = start(sink=sink)
    run.await_done()
    # As after a crash between weft's commit and Spark's.
    for commit in (tmp_path / "checkpoint" / "spark" / "commits").glob("*0*"):
        commit.unlink()
    again = start(sink=sink, close_at_end=True)
    again.await_done()
    assert [p.kind for p in again.progress] == ["flush"]
    assert trades.close(trades.rows_of(sink.tables), trades.expected(rows))


def test_a_step_that_a_sink_failed_in_is_delivered_again(
    start: Start, rows: pa.Table, tmp_path: Path
) -> None:
    trades.write(rows, tmp_path / "in", files=3)
    sink = Failing(at=2)
    run = start(sink=sink)
    with pytest.raises(JobError, match="the sink Failing failed at step 2: no room"):
        run.await_done()
    assert isinstance(run.exception, JobError)
    start(sink=sink, close_at_end=True).await_done()
    assert trades.close(trades.rows_of(sink.tables), trades.expected(rows))


class Failing(MemorySink):
    """Takes one step's results, and then says that it could not."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def deliver(self, results: dict[str, pa.Table], seq: int) -> None:
        super().deliver(results, seq)
        if seq == self.at:
            self.at = -1
            raise OSError("no room")


def test_a_flushed_window_is_closed_for_late_rows(start: Start, tmp_path: Path) -> None:
    trades.write(trades.table(100), tmp_path / "in", files=1)
    start(sink=MemorySink(), close_at_end=True).await_done()
    trades.write(trades.table(100), tmp_path / "in", files=1, first=1)
    trades.write(
        trades.table(10, start=trades.START + 900 * trades.SECOND), tmp_path / "in", files=1, first=2
    )
    sink = MemorySink()
    run = start(sink=sink, close_at_end=True)
    run.await_done()
    assert [p.late for p in run.progress] == [100, 0, 0]
    assert sum(row["n"] for row in sink.tables["everything"].to_pylist()) == 10


def test_idle_timeout_closes_windows_of_a_quiet_stream(start: Start, rows: pa.Table, tmp_path: Path) -> None:
    trades.write(rows, tmp_path / "in", files=1)
    sink = MemorySink()
    with start(sink=sink, trigger=None, idle_timeout="1 s") as run:
        wait_for(lambda: run.last_progress is not None and run.last_progress.kind == "flush")
        assert trades.close(trades.rows_of(sink.tables), trades.expected(rows))
        more = trades.table(100, start=trades.START + 9000 * trades.SECOND)
        trades.write(more, tmp_path / "in", files=1, first=1)
        wait_for(lambda: len(run.progress) == 4)
    assert trades.close(trades.rows_of(sink.tables), trades.expected(pa.concat_tables([rows, more])))
    assert not run.is_active


def test_late_and_untimed_rows_are_counted(start: Start, tmp_path: Path) -> None:
    trades.write(trades.table(1000), tmp_path / "in", files=1)
    late = trades.table(10)
    untimed = late.set_column(0, "ts", pa.nulls(10, late.schema.field("ts").type))
    trades.write(pa.concat_tables([late, untimed]), tmp_path / "in", files=1, first=1)
    run = start(sink=MemorySink(), lateness="30 s")
    run.await_done()
    assert [(p.rows, p.late, p.untimed) for p in run.progress] == [(1000, 0, 0), (20, 10, 10)]
    newest = trades.START + 999 * trades.SECOND
    assert [p.watermark for p in run.progress] == [newest - 30 * trades.SECOND] * 2


def test_a_function_as_sink_gets_frames(start: Start, rows: pa.Table, tmp_path: Path) -> None:
    trades.write(rows, tmp_path / "in", files=2)
    got: dict[str, list[Any]] = {}

    def take(frames: dict[str, DataFrame], seq: int) -> None:
        for name, frame in frames.items():
            got.setdefault(name, []).extend(tuple(row) for row in frame.toArrow().to_pylist())

    start(sink=take, close_at_end=True).await_done()
    assert {name: len(found) for name, found in got.items()} == {
        name: len(found) for name, found in trades.expected(rows).items()
    }


def test_state_stays_small_on_a_long_stream(start: Start, tmp_path: Path) -> None:
    files = 40
    trades.write(trades.table(files * 100, step=10 * trades.SECOND), tmp_path / "in", files=files)
    run = start(sink=MemorySink())
    run.await_done()
    sizes = [p.state_rows for p in run.progress]
    assert max(sizes[20:]) <= 1.5 * max(sizes[5:20])
    assert len(list((tmp_path / "checkpoint" / "slices").iterdir())) < 2 * 2 * 20
    assert len(list((tmp_path / "checkpoint" / "manifests").iterdir())) <= 10


def test_another_stream_is_refused(start: Start, tmp_path: Path) -> None:
    trades.write(trades.table(100), tmp_path / "in", files=1)
    start(sink=MemorySink()).await_done()
    with pytest.raises(CheckpointError, match="column 'volume' is int64, not string"):
        start(
            Files(
                tmp_path / "in",
                schema={"ts": "timestamp", "symbol": "string", "price": "double", "volume": "string"},
            ),
            sink=MemorySink(),
        )


def test_missing_state_is_said(start: Start, rows: pa.Table, tmp_path: Path) -> None:
    trades.write(rows.slice(0, 1000), tmp_path / "in", files=1)
    start(sink=MemorySink()).await_done()
    trades.write(rows.slice(1000), tmp_path / "in", files=1, first=1)
    # A copy, since workers may still hold the state of the checkpoint itself.
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "checkpoint", copy)
    for file in (copy / "slices").iterdir():
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(CheckpointError, match=r"damaged, '.*parquet'; restore"):
        start(sink=MemorySink(), checkpoint=copy).await_done()
    for file in (copy / "slices").iterdir():
        file.unlink()
    with pytest.raises(CheckpointError, match=r"missing, '.*parquet'; restore"):
        start(sink=MemorySink(), checkpoint=copy).await_done()
    for file in (copy / "manifests").iterdir():
        file.unlink()
    with pytest.raises(CheckpointError, match=r"Spark is at batch 1, but .* no manifest of batch 0"):
        start(sink=MemorySink(), checkpoint=copy).await_done()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sink": 3}, "is not a sink"),
        ({"lateness": "soon"}, "lateness"),
        ({"trigger": None, "close_at_end": True}, "close_at_end needs an end"),
        ({"trigger": "often"}, "trigger"),
        ({"buckets": 0}, "between 1 and"),
        ({"time": "when"}, "no time column 'when'"),
    ],
)
def test_options_are_checked(start: Start, tmp_path: Path, options: dict[str, Any], message: str) -> None:
    trades.write(trades.table(10), tmp_path / "in", files=1)
    with pytest.raises(WeftError, match=message):
        start(**({"sink": MemorySink()} | options))


def test_a_source_that_is_no_stream(spark: SparkSession, start: Start, tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"weft\.share"):
        start(spark.range(1), sink=MemorySink())
    with pytest.raises(JobError, match="does not exist"):
        start(Files(tmp_path / "nowhere"), sink=MemorySink())
    with pytest.raises(JobError, match="nowhere"):
        start(
            Files(
                tmp_path / "nowhere",
                schema={"ts": "timestamp", "symbol": "string", "price": "double", "volume": "bigint"},
            ),
            sink=MemorySink(),
        )


def test_closing_time_covers_every_open_window(rows: pa.Table) -> None:
    from weft.operators.windows.compile import compile_plan

    program = compile_plan(weft.plan(trades.queries()), rows.schema, "ts")
    # The five-minute window that starts with the minute of the row ends last.
    assert closing_time(program, trades.START + 61 * trades.SECOND) == trades.START + 360 * trades.SECOND
