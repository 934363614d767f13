"""Folders as sinks: files of a step are its own; a run without a checkpoint begins anew."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from weft.errors import JobError
from weft.sinks import ConsoleSink, FunctionSink, MemorySink, ParquetSink, Sink

SCHEMAS = {"one": pa.schema({"n": pa.int64()}), "a/b": pa.schema({"n": pa.int64()})}


def step(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64())})


def opened(folder: Path, stream: str = "s") -> ParquetSink:
    sink = ParquetSink(folder)
    sink.open(SCHEMAS, stream)
    return sink


def read(folder: Path) -> dict[str, list[int]]:
    folders = {"one": folder / "one", "a/b": folder / "a%2Fb"}
    return {name: sorted(pq.read_table(path).column("n").to_pylist()) for name, path in folders.items()}


@pytest.mark.parametrize(
    "kind", [MemorySink, ConsoleSink, lambda: ParquetSink("x"), lambda: FunctionSink(print)]
)
def test_all_are_sinks(kind: type) -> None:
    assert isinstance(kind(), Sink)


def test_parquet_has_one_table_per_query(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    assert read(tmp_path) == {"one": [], "a/b": []}
    sink.deliver({"one": step(1, 2)}, 1)
    sink.deliver({"one": step(3), "a/b": step(4)}, 2)
    assert read(tmp_path) == {"one": [1, 2, 3], "a/b": [4]}


def test_parquet_replaces_a_step_that_is_made_again(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.deliver({"one": step(1)}, 1)
    first.deliver({"one": step(2), "a/b": step(9)}, 2)
    again = opened(tmp_path)
    again.deliver({"one": step(5)}, 2)
    assert read(tmp_path) == {"one": [1, 5], "a/b": []}


def test_parquet_keeps_streams_apart(tmp_path: Path) -> None:
    opened(tmp_path, "s").deliver({"one": step(1)}, 1)
    opened(tmp_path, "s-2").deliver({"one": step(2)}, 1)
    assert read(tmp_path)["one"] == [1, 2]


def test_parquet_leaves_no_half_written_file(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    sink.deliver({"one": step(1)}, 1)
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == ["s-0000000001.parquet", "schema.parquet"]


def test_parquet_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    with pytest.raises(JobError, match=r"cannot write results to .*file"):
        opened(tmp_path / "file")


def test_memory_has_a_table_also_without_results() -> None:
    sink = MemorySink()
    sink.open(SCHEMAS, "s")
    sink.deliver({"one": step(2)}, 2)
    sink.deliver({"one": step(1)}, 1)
    assert {name: table.column("n").to_pylist() for name, table in sink.tables.items()} == {
        "one": [1, 2],
        "a/b": [],
    }


def test_console_shows_the_first_rows() -> None:
    out = io.StringIO()
    sink = ConsoleSink(rows=2, console=Console(file=out, width=60))
    sink.deliver({"one": step(11, 22, 33)}, 7)
    assert "one, step 7: 3 rows" in out.getvalue()
    assert "22" in out.getvalue()
    assert "33" not in out.getvalue()


def test_queries_that_come_later_are_opened_too(tmp_path: Path) -> None:
    for sink in (ParquetSink(tmp_path), MemorySink()):
        sink.open({"one": SCHEMAS["one"]}, "s")
        sink.deliver({"one": step(1)}, 1)
        sink.open(SCHEMAS, "s")
        sink.deliver({"one": step(2), "a/b": step(3)}, 2)
        sink.open({"a/b": SCHEMAS["a/b"]}, "s")
        sink.deliver({"a/b": step(4)}, 3)
    found = {name: table.column("n").to_pylist() for name, table in sink.tables.items()}
    assert read(tmp_path) == found == {"one": [1, 2], "a/b": [3, 4]}


@pytest.mark.parametrize("stream", ["s", "run"])
def test_other_columns_under_one_name_are_refused(tmp_path: Path, stream: str) -> None:
    other = {"one": pa.schema({"n": pa.float64()})}
    for sink in (ParquetSink(tmp_path), MemorySink()):
        sink.open(SCHEMAS, stream)
        sink.check(other)
        sink.deliver({"one": step(1)}, 1)
        with pytest.raises(JobError, match="query 'one' so far have other columns"):
            sink.check(other)
        sink.open({"a/b": SCHEMAS["a/b"]}, stream)
        with pytest.raises(JobError, match="query 'one' so far have other columns"):
            sink.open(other, stream)
        sink.check(SCHEMAS)


def test_a_run_without_checkpoint_begins_anew(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path)
    for schemas, results in (
        (SCHEMAS, {"one": step(1), "a/b": step(2)}),
        (SCHEMAS, {"one": step(3)}),
        ({**SCHEMAS, "one": pa.schema({"n": pa.float64()})}, {"one": pa.table({"n": [0.5]})}),
    ):
        sink.open(schemas, "run")
        sink.deliver(results, 1)
        sink.close()
        assert read(tmp_path)["one"] == results["one"].column("n").to_pylist()
    assert read(tmp_path)["a/b"] == []
