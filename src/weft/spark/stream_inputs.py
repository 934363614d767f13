"""Inputs of map tasks: rows that Spark hands over, files and ranges that a task reads itself, or nothing.

A job's frame has the rows of DataFrames and, for each share of files or ranges, a row with its number: the
task that gets this row reads the share. So any mix of streams is one frame, however Spark cuts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from weft.io.files import Chunk, Files, FileSplit
from weft.io.files.chunk import regroup
from weft.io.sources.ranges import Range, Ranged
from weft.runner.reads import Reads, StreamColumns

TAG = "tag"
"""The column that has the number of a row's stream, where there are several."""
SHARE = "id"
"""The column that has the number of a share; null in rows of DataFrames."""
SHARE_TAG = -1


@dataclass(frozen=True)
class FrameRows:
    """The rows of a stream's DataFrame, in these columns; without a ``tag`` all rows are of this stream."""

    stream: str
    columns: tuple[str, ...]
    tag: int | None = None

    def rows(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
        """Return the rows of the stream, in the program's types."""
        if self.tag is not None:
            batch = batch.filter(pc.equal(batch.column(TAG), self.tag))
        columns = [batch.column(name) for name in self.columns]
        return pa.Table.from_arrays(columns, names=schema.names).cast(schema)


@dataclass(frozen=True)
class FileShare:
    """One task's share of the files of a stream."""

    stream: str
    files: Files
    splits: Sequence[FileSplit]

    def chunks(self, columns: StreamColumns) -> Iterator[Chunk]:
        """Read the rows, in large chunks."""
        return self.files.read(self.splits, columns.schema, columns.keys)


@dataclass(frozen=True)
class RangeShare:
    """One task's share of the numbered rows of a stream."""

    stream: str
    source: Ranged
    ranges: Sequence[Range]

    def chunks(self, columns: StreamColumns) -> Iterator[Chunk]:
        """Read the rows, in large chunks."""
        return regroup(self.source.read(self.ranges, columns.schema))


Share: TypeAlias = FileShare | RangeShare


@dataclass(frozen=True)
class StreamInput:
    """The input of the map tasks of a job; without frames and shares there is none."""

    frames: tuple[FrameRows, ...] = ()
    shares: tuple[Share, ...] = ()

    def chunks(
        self, batches: Iterator[pa.RecordBatch], task: int, reads: Reads
    ) -> Iterator[tuple[str, Chunk]]:
        """Yield the rows of a task, each chunk with its stream; ``reads`` are those of the job's frame."""
        numbers: list[int] = []
        # Spark puts rows of one stream mostly into one partition, one after the other.
        for stream, chunks in groupby(self._rows(batches, reads, numbers), key=lambda chunk: chunk[0]):
            yield from ((stream, chunk) for chunk in regroup(chunk for _, chunk in chunks))
        for share in (self.shares[number] for number in numbers):
            yield from ((share.stream, chunk) for chunk in share.chunks(reads[share.stream]))

    def _rows(
        self, batches: Iterator[pa.RecordBatch], reads: Reads, numbers: list[int]
    ) -> Iterator[tuple[str, Chunk]]:
        """Yield the rows of DataFrames; the numbers of shares are added to ``numbers`` on the way."""
        for batch in batches:
            if self.shares:
                numbers += batch.column(SHARE).drop_null().to_pylist()
            for frame in self.frames:
                rows = frame.rows(batch, reads[frame.stream].schema)
                if rows.num_rows:
                    yield frame.stream, Chunk(rows)


def one_task(spark: SparkSession, tasks: int = 1) -> DataFrame:
    """Return a frame that stands for so many tasks that need no rows of Spark's; it has their numbers."""
    return spark.range(0, tasks, 1, tasks)
