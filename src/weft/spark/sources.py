"""What Spark's stream drives: a DataFrame's own batches, or batches of names of files for tasks to read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pyspark.sql import DataFrame, SparkSession

from weft.engine.program import Program
from weft.errors import JobError
from weft.files import Files, Found
from weft.spark.failure import surfaced
from weft.spark.inputs import FileRows
from weft.spark.job import one_task, rows_of
from weft.spark.pace import Pace
from weft.spark.tasks import Input

P = TypeVar("P", contravariant=True)
NAMES_ONLY = "path string, modificationTime timestamp, length bigint, content binary"


Rows = Callable[[P], tuple[DataFrame, Any, tuple[str, ...]]]
"""Gives a step's rows for a program: a frame, how its tasks read them, and the files left out."""


@dataclass(frozen=True, slots=True)
class Part(Generic[P]):
    """What one step takes of a batch; ``taken`` is how many of its files are taken then, None: all."""

    rows: Rows[P]
    taken: int | None = None


class Batches(Protocol[P]):
    """A source of micro-batches."""

    frame: DataFrame

    def parts(self, batch: DataFrame, taken: int) -> Iterator[Part[P]]:
        """One of Spark's batches as one or more steps, without the files that were taken before.

        The next is asked for when the step is done.
        """
        ...


class FrameBatches:
    """Rows of a streaming DataFrame, handed from the JVM to Python."""

    def __init__(self, frame: DataFrame) -> None:
        # With all its columns: a query that joins later may read any of them.
        self.frame = frame

    def parts(self, batch: DataFrame, taken: int) -> Iterator[Part[Program]]:
        """The columns of the batch that are read, in one step."""
        yield Part(lambda program: (*rows_of(batch, program), ()))


class FilesBatches:
    """Files as they arrive: Spark finds them and keeps offsets, weft's own tasks read them.

    Spark's ``binaryFile`` source, asked for names and lengths only, never opens a file. With a ``pace``, a
    batch is taken in steps of as many files as that allows, oldest first.
    """

    def __init__(self, files: Files, spark: SparkSession, pace: Pace | None = None) -> None:
        self.files, self.spark, self.pace = files, spark, pace
        self.frame = names_of(files, spark)

    def parts(self, batch: DataFrame, taken: int) -> Iterator[Part[Program]]:
        """The batch's files, all at once, or as many as take as long as was asked for."""
        found = sorted((row.modificationTime, row.path, row.length) for row in batch.collect())
        files = [Found(path, size) for _, path, size in found]
        while taken < len(files) or not files:
            sizes = [f.size for f in files[taken:]]
            now = files[taken : taken + self.pace.take(sizes)] if self.pace else files[taken:]
            taken += len(now)
            began = time.perf_counter()
            yield Part(self._rows(batch, now), None if taken == len(files) else taken)
            if self.pace is None or not files:
                return
            seconds = time.perf_counter() - began
            self.pace.learn(sum(f.size for f in now), seconds, full=taken < len(files))

    def _rows(self, batch: DataFrame, files: list[Found]) -> Rows[Program]:
        """The files, shared out to tasks."""

        def rows(program: Program) -> tuple[DataFrame, Input, tuple[str, ...]]:
            tasks = self.spark.sparkContext.defaultParallelism
            shares, skipped = self.files.splits([f for f in files if f.size], tasks)
            return one_task(batch.sparkSession, len(shares)), FileRows(self.files, shares), tuple(skipped)

        return rows


def names_of(files: Files, spark: SparkSession) -> DataFrame:
    """A stream of the names, lengths and times of files."""
    if len(files.places) != 1:
        raise JobError("a stream of files needs one path; give a folder or a glob, not a list")
    reader = spark.readStream.format("binaryFile").schema(NAMES_ONLY).option("recursiveFileLookup", "true")
    if files.max_files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", files.max_files_per_batch)
    with surfaced():
        return reader.load(files.places[0]).select("path", "length", "modificationTime")
