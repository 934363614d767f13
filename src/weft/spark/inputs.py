"""Inputs of map tasks: batches of Spark's, files or ranges it reads itself, or nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from weft.io.files import Chunk, Files, FileSplit
from weft.io.files.chunk import regroup
from weft.io.sources.ranges import Range, Ranged
from weft.operators.lookups.bind import key_columns
from weft.operators.windows.program import Program


@dataclass(frozen=True)
class SparkRows:
    """Rows of a DataFrame."""

    def chunks(self, batches: Iterator[pa.RecordBatch], task: int, program: Program) -> Iterator[Chunk]:
        """Spark's batches, in the program's types, put together to larger ones."""
        schema = _read_columns(program)
        tables = (pa.Table.from_batches([b]).rename_columns(schema.names) for b in batches if b.num_rows)
        return regroup(Chunk(table.cast(schema)) for table in tables)


@dataclass(frozen=True)
class FileRows:
    """Rows of files; ``shares`` has the splits of each task."""

    files: Files
    shares: Sequence[Sequence[FileSplit]]

    def chunks(self, batches: Iterator[pa.RecordBatch], task: int, program: Program) -> Iterator[Chunk]:
        """Read this task's share of the files."""
        for _ in batches:
            pass
        keys = sorted(key_columns(program.lookups).union(*(g.keys for g in program.groupings)))
        share = self.shares[task] if task < len(self.shares) else ()
        return self.files.read(share, _read_columns(program), keys)


@dataclass(frozen=True)
class RangeRows:
    """Rows by their numbers; ``shares`` has the ranges of each task."""

    source: Ranged
    shares: Sequence[Sequence[Range]]

    def chunks(self, batches: Iterator[pa.RecordBatch], task: int, program: Program) -> Iterator[Chunk]:
        """Read this task's share of the ranges."""
        for _ in batches:
            pass
        share = self.shares[task] if task < len(self.shares) else ()
        return regroup(self.source.read(share, _read_columns(program)))


@dataclass(frozen=True)
class NoRows:
    """No rows at all."""

    def chunks(self, batches: Iterator[pa.RecordBatch], task: int, program: Program) -> Iterator[Chunk]:
        """Nothing."""
        for _ in batches:
            pass
        return iter(())


def _read_columns(program: Program) -> pa.Schema:
    return pa.schema([program.schema.field(name) for name in program.columns])


def rows_of(frame: DataFrame, program: Program) -> tuple[DataFrame, SparkRows]:
    """A DataFrame's rows as a job's input: the columns that are read, under names that need no quotes."""
    quoted = ["`" + name.replace("`", "``") + "`" for name in program.columns]
    return frame.select(*(col(name).alias(f"c{i}") for i, name in enumerate(quoted))), SparkRows()


def one_task(spark: SparkSession, tasks: int = 1) -> DataFrame:
    """A frame that stands for so many tasks that need no rows of Spark's."""
    return spark.range(0, tasks, 1, tasks)
