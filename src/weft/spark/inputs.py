"""Where a map task's rows come from: batches of Spark's, files or ranges it reads itself, or nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from weft.engine.bind import key_columns
from weft.engine.program import Program
from weft.files import Chunk, Files, Split
from weft.files.chunk import regroup
from weft.ranges import Range, Ranged


@dataclass(frozen=True)
class SparkRows:
    """Rows of a DataFrame."""

    def chunks(self, batches: Iterator[pa.RecordBatch], task: int, program: Program) -> Iterator[Chunk]:
        """Spark's batches, in the program's types, put together to larger ones."""
        schema = _wanted(program)
        tables = (pa.Table.from_batches([b]).rename_columns(schema.names) for b in batches if b.num_rows)
        return regroup(Chunk(table.cast(schema)) for table in tables)


@dataclass(frozen=True)
class FileRows:
    """Rows of files; ``shares`` has the splits of each task."""

    files: Files
    shares: Sequence[Sequence[Split]]

    def chunks(self, batches: Iterator[pa.RecordBatch], task: int, program: Program) -> Iterator[Chunk]:
        """What is in this task's share of the files."""
        for _ in batches:
            pass
        keys = sorted(key_columns(program.joins).union(*(g.keys for g in program.groupings)))
        share = self.shares[task] if task < len(self.shares) else ()
        return self.files.read(share, _wanted(program), keys)


@dataclass(frozen=True)
class RangeRows:
    """Rows by their numbers; ``shares`` has the ranges of each task."""

    source: Ranged
    shares: Sequence[Sequence[Range]]

    def chunks(self, batches: Iterator[pa.RecordBatch], task: int, program: Program) -> Iterator[Chunk]:
        """What is in this task's share of the ranges."""
        for _ in batches:
            pass
        share = self.shares[task] if task < len(self.shares) else ()
        return regroup(self.source.read(share, _wanted(program)))


@dataclass(frozen=True)
class NoRows:
    """No rows at all."""

    def chunks(self, batches: Iterator[pa.RecordBatch], task: int, program: Program) -> Iterator[Chunk]:
        """Nothing."""
        for _ in batches:
            pass
        return iter(())


def _wanted(program: Program) -> pa.Schema:
    return pa.schema([program.schema.field(name) for name in program.columns])
