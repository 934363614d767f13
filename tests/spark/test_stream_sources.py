"""Any mix of DataFrames, files, Kafka and generated rows as one stream of Spark's: every row once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import weft
from support.brokers import Broker
from weft.errors import JobError
from weft.io.files import Files
from weft.io.sources.ranges import Ranged
from weft.runner.reads import Reads, StreamColumns
from weft.spark import stream_sources
from weft.spark.batch_files import settle
from weft.spark.pace import Pace
from weft.spark.setup import columns_of
from weft.spark.stream_inputs import StreamInput
from weft.spark.stream_sources import JobRows, rows_now, sources_of

Source = DataFrame | Files | Ranged
Rows = dict[str, Counter[str]]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    yield Broker()


class Checkpoint:
    """How far a stream has come, in memory; the files of batches in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.system = folder, str(folder / "weft"), fs.LocalFileSystem()
        (folder / "weft").mkdir(parents=True)
        self.batch, self.part = -1, 0
        self.steps: list[Rows] = []

    def taken(self, batch_id: int) -> int:
        return self.part if batch_id == self.batch else 0

    def is_done(self, batch_id: int) -> bool:
        return batch_id <= self.batch - (self.part > 0)

    def commit(self, batch_id: int, taken: int | None, rows: Rows) -> None:
        self.batch, self.part = batch_id, taken or 0
        self.steps.append(rows)

    def rows(self) -> Rows:
        return sums(self.steps)


def sums(steps: list[Rows]) -> Rows:
    return {
        s: sum((step.get(s, Counter()) for step in steps), Counter()) for s in {s for r in steps for s in r}
    }


def collected(job: JobRows, reads: Reads) -> Rows:
    """The rows of a job by stream, as its map tasks see them; with the partition of numbered ones."""

    rows_of_task = job.input

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for stream, chunk in rows_of_task.chunks(batches, 0, reads):
            partitions = [p for p, count in chunk.origins for _ in range(count)]
            values = [str(list(row.values())) for row in chunk.table.to_pylist()]
            texts = [f"{p}:{v}" for p, v in zip(partitions, values)] if partitions else values
            yield pa.record_batch({"stream": [stream] * len(texts), "row": texts})

    counts: Rows = {}
    for row in job.frame.mapInArrow(read, "stream string, row string").collect():
        counts.setdefault(row.stream, Counter())[row.row] += 1
    return counts


def reads_of(sources: Mapping[str, Source]) -> dict[str, StreamColumns]:
    return {stream: StreamColumns(columns_of(source)) for stream, source in sources.items()}


def drive(
    spark: SparkSession,
    sources: Mapping[str, Source],
    store: Checkpoint,
    *,
    reads: Reads | None = None,
    pace: Pace | None = None,
    until: int | None = None,
) -> None:
    """Take all that there is; be killed in the step with the number ``until``."""
    streams, columns = sources_of(sources, spark, pace), reads_of(sources) if reads is None else reads

    def batch(frame: DataFrame, batch_id: int) -> None:
        if store.is_done(batch_id):
            return
        for part in streams.parts(frame, batch_id, store.taken(batch_id), partial(settle, store)):
            rows = collected(part.rows(columns), columns)
            if len(store.steps) == until:
                raise RuntimeError("killed")
            store.commit(batch_id, part.taken, rows)

    writer = streams.frame.writeStream.foreachBatch(batch).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(store.folder / "spark")).start()
    if until is None:
        query.awaitTermination()
    else:
        with pytest.raises(StreamingQueryException, match="killed"):
            query.awaitTermination()


def write(folder: Path, number: int, rows: int = 3, time: float | None = None) -> None:
    """Write a CSV file whose rows have its number."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:03}.csv"
    path.write_text("x,y\n" + f"{number},a\n" * rows)
    at = 1.7e9 + number if time is None else time
    os.utime(path, (at, at))


def frame_of(spark: SparkSession, folder: Path, at_once: int = 1) -> DataFrame:
    """A streaming DataFrame with a column whose name needs quotes."""
    reader = spark.readStream.schema("`a ``x` bigint, y string").option("header", "true")
    return reader.option("maxFilesPerTrigger", at_once).csv(str(folder))


def files_of(folder: Path, limit: int | None = None) -> Files:
    return Files(folder, "csv", {"x": "bigint", "y": "string"}, max_files_per_batch=limit)


class World:
    """Sources of each kind, with a first and a second lot of rows, and what is expected of them."""

    def __init__(self, spark: SparkSession, folder: Path, broker: Broker) -> None:
        self.spark, self.folder, self.broker = spark, folder, broker
        self.expected: Rows = {}

    def make(self, kind: str, stream: str) -> Source:
        if kind == "generated":
            source = weft.Generated(rows=900, rate=10, keys=3, max_rows_per_batch=400)
            self.expected[stream] = Counter(
                str(list(row.values())) for chunk in source for row in chunk.table.to_pylist()
            )
            return source
        self.more(kind, stream, range(3))
        folder = self.folder / stream
        if kind == "kafka":
            return weft.Kafka(
                self.broker.servers, self.topic(stream), schema={"x": "bigint"}, max_rows_per_batch=4
            )
        return frame_of(self.spark, folder) if kind == "frame" else files_of(folder, 2)

    def topic(self, stream: str) -> str:
        return f"{self.folder.name}-{stream}"

    def more(self, kind: str, stream: str, numbers: range) -> None:
        counts = self.expected.setdefault(stream, Counter())
        if kind == "kafka":
            values = [3 * n + i for n in numbers for i in range(3)]
            self.broker.send(self.topic(stream), [{"x": value} for value in values])
            counts.update(f"{place % 2}:[{value}]" for place, value in enumerate(values))
        elif kind != "generated":
            for number in numbers:
                write(self.folder / stream, number)
                counts[f"[{number}, 'a']"] += 3


@pytest.mark.parametrize(
    "kinds",
    [
        "frame",
        "files",
        "generated",
        "kafka",
        "frame frame",
        "files files",
        "files frame",
        "frame generated",
        "kafka generated",
        "files kafka",
        "frame kafka files",
        "generated files frame",
    ],
)
def test_every_row_is_taken_once_over_restarts(
    spark: SparkSession, tmp_path: Path, broker: Broker, kinds: str
) -> None:
    world, store = World(spark, tmp_path, broker), Checkpoint(tmp_path / "checkpoint")
    streams = {f"s{number}": kind for number, kind in enumerate(kinds.split())}
    sources = {stream: world.make(kind, stream) for stream, kind in streams.items()}
    drive(spark, sources, store, until=1)
    assert len(store.steps) == 1
    for lot in (range(3, 4), range(4, 5)):
        # With rows that came when no run was there.
        for stream, kind in streams.items():
            world.more(kind, stream, lot)
        drive(spark, sources, store)
        assert store.rows() == world.expected


def test_files_are_taken_in_order_and_other_rows_with_the_first(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path / "a", number, time=1.7e9 - number)
        write(tmp_path / "b", number)
        write(tmp_path / "c", number)
    sources = {
        "a": files_of(tmp_path / "a", 2),
        "b": files_of(tmp_path / "b", 1),
        "c": frame_of(spark, tmp_path / "c", at_once=5),
    }
    store = Checkpoint(tmp_path / "checkpoint")
    drive(spark, sources, store, until=2)
    # What was cut stays so; a run with another limit takes more of it at once.
    drive(spark, sources | {"b": files_of(tmp_path / "b")}, store)
    numbers = [{s: sorted(int(row[1]) for row in rows) for s, rows in step.items()} for step in store.steps]
    assert numbers == [
        {"a": [3, 4], "b": [0], "c": [0, 1, 2, 3, 4]},
        {"a": [1, 2], "b": [1]},
        {"a": [0], "b": [2, 3, 4]},
    ]


def test_a_pace_holds_for_all_files(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(4):
        for stream in "abc":
            write(tmp_path / stream, number)
    sources = {
        "a": files_of(tmp_path / "a"),
        "b": files_of(tmp_path / "b"),
        "c": frame_of(spark, tmp_path / "c", at_once=4),
    }
    slow, quick = Checkpoint(tmp_path / "slow"), Checkpoint(tmp_path / "quick")
    drive(spark, sources, slow, pace=Pace(1e-6))
    assert [sum(rows.total() for s, rows in step.items() if s != "c") for step in slow.steps] == [3] * 8
    assert [s for step in slow.steps for s in step if s != "c"] == ["a", "b"] * 4
    drive(spark, sources, quick, pace=Pace(1e6))
    assert len(quick.steps) < 6
    assert quick.rows() == slow.rows()
    with pytest.raises(JobError, match="target_batch needs a source of files"):
        sources_of({"c": sources["c"]}, spark, Pace(1.0))


def test_streams_and_columns_that_are_not_read_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    for stream in "abc":
        write(tmp_path / stream, 0)
    frames = {s: frame_of(spark, tmp_path / s) for s in "ab"}
    sources = {**frames, "c": files_of(tmp_path / "c")}
    reads = {"b": StreamColumns(pa.schema({"a `x": pa.int64()}))}
    store = Checkpoint(tmp_path / "checkpoint")
    drive(spark, sources, store, reads=reads)
    assert store.rows() == {"b": Counter({"[0]": 3})}
    store = Checkpoint(tmp_path / "nothing")
    drive(spark, sources, store, reads={})
    assert store.steps == [{}]
    store = Checkpoint(tmp_path / "alone")
    drive(spark, {"b": frames["b"]}, store, reads=reads)
    assert store.rows() == {"b": Counter({"[0]": 3})}


def test_rows_of_dataframes_are_not_read_twice_beside_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_sources, "FIRST_LOOK_ROWS", 2)
    log = tmp_path / "log"
    log.mkdir()

    def noted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            with open(log / str(os.getpid()), "a") as file:
                file.write(f"{batch.num_rows}\n")
            yield batch

    for number in range(9):
        write(tmp_path / "a", number)
    write(tmp_path / "b", 0, rows=100_000)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 100)
    try:
        frame = frame_of(spark, tmp_path / "b").toDF("x", "y")
        sources = {"a": files_of(tmp_path / "a"), "b": frame.mapInArrow(noted, frame.schema)}
        store = Checkpoint(tmp_path / "checkpoint")
        drive(spark, sources, store)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert {s: rows.total() for s, rows in store.rows().items()} == {"a": 27, "b": 100_000}
    assert 100_000 <= sum(int(n) for file in log.iterdir() for n in file.read_text().split()) < 150_000


def test_rows_of_now(spark: SparkSession, tmp_path: Path, broker: Broker) -> None:
    world = World(spark, tmp_path, broker)
    kinds = {"f": "files", "g": "generated", "k": "kafka"}
    sources = {stream: world.make(kind, stream) for stream, kind in kinds.items()}
    frames = {"c": spark.createDataFrame([(1, "u"), (2, "v")], "`a ``x` bigint, y string")}
    expected = world.expected | {"c": Counter(["[1, 'u']", "[2, 'v']"])}
    for mix in (sources | frames, sources, frames, {"f": sources["f"]}, frames | {"d": frames["c"]}):
        reads = reads_of(mix)
        found = collected(rows_now(mix, spark, reads), reads)
        assert found == {stream: expected["c" if stream == "d" else stream] for stream in mix}


def test_a_stream_of_files_has_one_place(spark: SparkSession, tmp_path: Path) -> None:
    files = Files([tmp_path / "a", tmp_path / "b"], "csv", {"x": "bigint"})
    with pytest.raises(JobError, match="needs one path"):
        sources_of({"a": files}, spark)


@pytest.mark.fast
def test_no_input_at_all() -> None:
    batch = pa.record_batch({"id": [0]})
    assert list(StreamInput().chunks(iter([batch]), 0, {})) == []
