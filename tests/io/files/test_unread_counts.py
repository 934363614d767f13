"""What could not be read of files is counted in this process as it is on Spark."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import weft
from weft.io.files import Files
from weft.jobs import launch
from weft.jobs.job import parse
from weft.jobs.report import Report
from weft.local.readers import reader_of
from weft.local.running import LocalRun
from weft.operators.lookups.tables import LookupTables
from weft.runner.progress import Progress
from weft.sinks import MemorySink

LINES = "ts,x\n2024-01-01T00:00:01Z,1\nbroken\n2024-01-01T00:00:02Z,2\n"
JOINS = """
[sources.a]
kind = "files"
path = "a"
format = "csv"
[sources.b]
kind = "files"
path = "b"
on_bad_file = "skip"
[stream]
time = "ts"
[queries]
sql = "SELECT a.x FROM a [RANGE '1 min'], b [RANGE '1 min'] WHERE a.x = b.x"
[sink]
kind = "memory"
"""
ONE = """
[source]
kind = "files"
path = "{}"
format = "{}"
on_bad_file = "skip"
[stream]
time = "ts"
[queries]
sql = "SELECT count(*) AS n FROM s [RANGE '1 min']"
[sink]
kind = "memory"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A CSV file with a row that is too short, beside Parquet files of which one is cut short."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "1.csv").write_text(LINES)
    rows = Files(tmp_path / "a", format="csv").stream_schema().empty_table()
    rows = pa.table({"ts": pa.array([1_704_067_201_000_000], rows.schema.field("ts").type), "x": [1]})
    pq.write_table(rows, tmp_path / "b" / "1.parquet")
    (tmp_path / "b" / "2.parquet").write_bytes((tmp_path / "b" / "1.parquet").read_bytes()[:-9])
    return tmp_path


def progress(text: str, folder: Path) -> list[Progress]:
    job, told = parse(text, folder), list[Progress]()
    quiet = Report(Console(file=io.StringIO()))
    with launch.start(job, "local", MemorySink(), quiet, on_progress=told.append) as run:
        run.await_done()
    return told


def test_files_give_their_bad_rows_and_the_files_left_out(folder: Path) -> None:
    assert [chunk.bad for chunk in Files(folder / "a", format="csv")] == [1]
    parquet = Files(folder / "b", on_bad_file="skip")
    assert [path for chunk in parquet for path in chunk.skipped] == [str(folder / "b" / "2.parquet")]
    arrivals = reader_of(parquet, "ts", live=True).reads(lambda: (("ts", "x"), ()), None)
    chunks = [read.chunk for read in (next(arrivals) for _ in range(3)) if read is not None]
    assert sum(c.table.num_rows for c in chunks) == 1
    assert [path for c in chunks for path in c.skipped] == [str(folder / "b" / "2.parquet")]


def test_a_run_in_process_counts_bad_rows_and_files_left_out(folder: Path) -> None:
    queries = weft.sql("SELECT count(*) AS n FROM s [RANGE '1 min']")
    files = Files(folder / "a", format="csv")
    run = LocalRun(queries, files.stream_schema(), "ts")
    for chunk in files:
        run.step(chunk)
    for chunk in Files(folder / "b", on_bad_file="skip"):
        run.step(chunk)
    assert (run.seen.rows, run.seen.bad) == (4, 1)
    assert run.skipped == (str(folder / "b" / "2.parquet"),)


def test_a_job_in_process_tells_of_bad_rows_and_files_left_out(folder: Path) -> None:
    told = progress(ONE.format("a", "csv"), folder)
    assert (sum(p.bad for p in told), sum(p.rows for p in told)) == (1, 3)
    told = progress(ONE.format("b", "parquet"), folder)
    assert [name for p in told for name in p.skipped_files] == [str(folder / "b" / "2.parquet")]


def test_joins_in_process_tell_of_bad_rows_and_files_left_out(folder: Path) -> None:
    told = progress(JOINS, folder)
    assert (sum(p.bad for p in told), sum(p.rows for p in told)) == (1, 4)
    assert [name for p in told for name in p.skipped_files] == [str(folder / "b" / "2.parquet")]


def test_several_streams_in_process_count_what_their_sources_could_not_read(folder: Path) -> None:
    joins = weft.sql("SELECT a.x FROM a [RANGE '1 min'], b [RANGE '1 min'] WHERE a.x = b.x")
    a, b = Files(folder / "a", format="csv"), Files(folder / "b", on_bad_file="skip")
    run = LocalRun(joins, {"a": a.stream_schema(), "b": b.stream_schema()}, "ts")
    for chunk in a:
        run.step({"a": chunk})
    for chunk in b:
        run.step({"b": chunk})
    assert run.close()["q1"].num_rows == 1
    assert (run.seen.bad, run.skipped) == (1, (str(folder / "b" / "2.parquet"),))
    assert weft.run(joins, {"a": a, "b": b}, time="ts")["q1"].num_rows == 1


def test_bad_rows_of_a_static_table_are_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    queries = weft.sql("SELECT x, count(*) AS n FROM s [RANGE '1 min'] JOIN close USING (x) GROUP BY x")
    with caplog.at_level(logging.WARNING):
        LookupTables({"close": folder / "a" / "1.csv"}).schemas(queries)
    assert "table 'close': 1 rows or values of" in caplog.text


def test_the_results_of_a_run_tell_what_could_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts,x\n2024-01-01T00:00:00Z,1\nbroken\n")
    (tmp_path / "b.csv").write_bytes("ts,x\n2024-01-01T00:00:00Z,1\n".encode("utf-16"))
    files = Files(tmp_path, "csv", schema={"ts": "timestamp", "x": "bigint"}, on_bad_file="skip")
    windows = weft.sql("-- name: w\nSELECT count(*) AS n FROM a [RANGE '1 min']")
    joins = weft.sql("-- name: j\nSELECT a.x FROM a [RANGE '1 min'], b [RANGE '1 min'] WHERE a.x = b.x")
    for queries, source in ((windows, files), (windows + joins, {"a": files, "b": files})):
        answers = weft.run(queries, source, time="ts")
        streams = 1 if source is files else 2
        assert answers["w"].column("n").to_pylist() == [1]
        assert (answers.rows, answers.bad) == (2 * streams, streams)
        assert [Path(name).name for name in answers.skipped_files] == ["b.csv"] * streams
