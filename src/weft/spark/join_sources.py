"""Several streams as one of Spark's: a single query drives them all, and keeps their offsets together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from weft.errors import JobError
from weft.io.files import Chunk, Files, FileSplit
from weft.io.files.chunk import regroup
from weft.operators.joins.state import Joins
from weft.spark.batch_files import ByStream, settle
from weft.spark.failure import surfaced
from weft.spark.inputs import one_task
from weft.spark.join_tasks import JoinInput
from weft.spark.sources import NAMES, UNLIMITED_FILES, Batches, BatchPart, in_order, names_of
from weft.store.slice_store import SliceStore


@dataclass(frozen=True)
class StreamRows:
    """Rows that Spark hands over: ``tag`` is the number of a row's stream, its columns have their own names
    there: ``columns``, by stream."""

    tags: Mapping[str, int]
    columns: Mapping[str, Mapping[str, str]]

    def chunks(
        self, batches: Iterator[pa.RecordBatch], task: int, joins: Joins
    ) -> Iterator[tuple[str, Chunk]]:
        """The rows of each stream; a task has mostly those of one."""
        by_stream: dict[str, list[Chunk]] = {stream: [] for stream in joins.streams}
        for batch in batches:
            for stream, schema in joins.schemas.items():
                rows = batch.filter(pc.equal(batch.column("tag"), self.tags[stream]))
                if rows.num_rows:
                    columns = [rows.column(self.columns[stream][name]) for name in schema.names]
                    table = pa.Table.from_arrays(columns, names=schema.names).cast(schema)
                    by_stream[stream].append(Chunk(table))
        for stream, chunks in by_stream.items():
            yield from ((stream, chunk) for chunk in regroup(chunks))


@dataclass(frozen=True)
class StreamFiles:
    """Rows of files; ``shares`` has, for each task, a stream and the splits of its files."""

    files: Mapping[str, Files]
    shares: Sequence[tuple[str, Sequence[FileSplit]]]

    def chunks(
        self, batches: Iterator[pa.RecordBatch], task: int, joins: Joins
    ) -> Iterator[tuple[str, Chunk]]:
        """Read this task's share of the files."""
        for _ in batches:
            pass
        if task < len(self.shares):
            stream, splits = self.shares[task]
            for chunk in self.files[stream].read(splits, joins.schemas[stream]):
                yield stream, chunk


class FrameStreams:
    """Streaming DataFrames, each in columns of its own: all of them, for a join that comes may read any."""

    def __init__(self, frames: Mapping[str, DataFrame]) -> None:
        self.tags = {stream: number for number, stream in enumerate(sorted(frames))}
        self.columns: dict[str, dict[str, str]] = {}
        tagged = []
        for stream, number in self.tags.items():
            names = frames[stream].columns
            self.columns[stream] = {name: f"c{number}_{n}" for n, name in enumerate(names)}
            quoted = ["`" + name.replace("`", "``") + "`" for name in names]
            columns = [col(name).alias(f"c{number}_{n}") for n, name in enumerate(quoted)]
            tagged.append(frames[stream].select(lit(number).alias("tag"), *columns))
        with surfaced():
            self.frame = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), tagged)

    def parts(self, batch: DataFrame, batch_id: int, store: SliceStore) -> Iterator[BatchPart[Joins]]:
        """The rows and columns of the batch that are read."""
        yield BatchPart(lambda joins: self._rows(batch, joins))

    def _rows(self, batch: DataFrame, joins: Joins) -> tuple[DataFrame, JoinInput, tuple[str, ...]]:
        read = [self.columns[s][name] for s, schema in joins.schemas.items() for name in schema.names]
        rows = batch.where(col("tag").isin([self.tags[stream] for stream in joins.streams]))
        return rows.select("tag", *read), StreamRows(self.tags, self.columns), ()


class FilesStreams:
    """Files of several streams as they arrive: Spark finds them and keeps offsets, tasks read them."""

    def __init__(self, files: Mapping[str, Files], spark: SparkSession) -> None:
        self.files, self.spark = files, spark
        self.tags = {stream: number for number, stream in enumerate(sorted(files))}
        names = [
            names_of(files[stream], spark).select(lit(number).alias("tag"), *NAMES)
            for stream, number in self.tags.items()
        ]
        self.frame = reduce(DataFrame.union, names)

    def parts(self, batch: DataFrame, batch_id: int, store: SliceStore) -> Iterator[BatchPart[Joins]]:
        """The batch's files: of each stream as many at once as there may be."""
        rows, taken = batch.collect(), store.taken(batch_id)
        listed: ByStream = {
            stream: in_order(files, [row for row in rows if row.tag == self.tags[stream]])
            for stream, files in self.files.items()
        }
        if taken or self._rounds(listed) > 1:
            listed = settle(store, batch_id, listed)
        rounds = self._rounds(listed)
        for number in range(taken, rounds):
            now = {s: files[number * self._most(s) :][: self._most(s)] for s, files in listed.items()}
            yield BatchPart(partial(self._rows, batch, now), None if number + 1 == rounds else number + 1)

    def _most(self, stream: str) -> int:
        return self.files[stream].max_files_per_batch or UNLIMITED_FILES

    def _rounds(self, listed: ByStream) -> int:
        return max([1, *(-(-len(files) // self._most(stream)) for stream, files in listed.items())])

    def _rows(
        self, batch: DataFrame, listed: ByStream, joins: Joins
    ) -> tuple[DataFrame, JoinInput, tuple[str, ...]]:
        """The files of streams that are read, shared out to tasks."""
        tasks = self.spark.sparkContext.defaultParallelism
        shares: list[tuple[str, Sequence[FileSplit]]] = []
        skipped: list[str] = []
        for stream in joins.streams:
            files = [file for file in listed[stream] if file.size]
            if files:
                splits, left_out = self.files[stream].splits(files, tasks)
                shares += [(stream, share) for share in splits]
                skipped += left_out
        frame = one_task(batch.sparkSession, max(1, len(shares)))
        return frame, StreamFiles(self.files, shares), tuple(skipped)


def batches_of(sources: Mapping[str, DataFrame | Files], spark: SparkSession) -> Batches[Joins]:
    """Make the one source of batches that drives all streams."""
    frames = {s: f for s, f in sources.items() if isinstance(f, DataFrame)}
    files = {s: f for s, f in sources.items() if isinstance(f, Files)}
    if frames and files:
        raise JobError(
            f"{', '.join(frames)} is a DataFrame, but {', '.join(files)} is of files; "
            "give all streams as DataFrames, or all as weft.Files"
        )
    return FrameStreams(frames) if frames else FilesStreams(files, spark)
